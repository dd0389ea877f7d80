// `process` as far as packages ask for it: there is no process, and it has no environment.

const write = (level) => ({ write: (text) => (console[level](String(text).replace(/\n$/, '')), true), isTTY: false });

export const env = {};
export const argv = [];
export const execArgv = [];
export const version = '';
export const versions = {};
export const platform = 'wasi';
export const arch = 'wasm32';
export const pid = 1;
export const title = 'handler';
export const stdout = write('log');
export const stderr = write('error');
export const cwd = () => '/';
export const uptime = () => performance.now() / 1000;
export const memoryUsage = () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 });
export const nextTick = (callback, ...given) => queueMicrotask(() => callback(...given));
export const emitWarning = (warning) => console.warn(String(warning?.message ?? warning));
export const exit = (code) => {
  throw new Error(`process.exit(${code ?? ''}) was called; a handler ends by returning or throwing`);
};

export function hrtime(since = [0, 0]) {
  const now = performance.now();
  const [seconds, nanos] = [Math.floor(now / 1000) - since[0], Math.floor((now % 1000) * 1e6) - since[1]];
  return nanos < 0 ? [seconds - 1, nanos + 1e9] : [seconds, nanos];
}
hrtime.bigint = () => BigInt(Math.round(performance.now() * 1e6));

const nothing = () => process;
export const on = nothing;
export const once = nothing;
export const off = nothing;
export const addListener = nothing;
export const removeListener = nothing;
export const emit = () => false;

const process = {
  addListener, arch, argv, cwd, emit, emitWarning, env, execArgv, exit, hrtime, memoryUsage, nextTick, off, on, once, pid,
  platform, removeListener, stderr, stdout, title, uptime, version, versions,
};

export default process;
