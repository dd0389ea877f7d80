// `console`, which writes to the job's log.

import { shown } from '../values.js';

/** Where it writes, once there is a host. */
export const write = { to: { write() {} } };

const line =
  (level) =>
  (...given) =>
    write.to.write(level, given.map(shown).join(' '), []);

export const console = {
  assert: (holds, ...given) => holds || console.error('Assertion failed:', ...given),
  dir: line('info'),
  group: line('info'),
  groupEnd() {},
  table: line('info'),
  time() {},
  timeEnd() {},
  debug: line('debug'),
  error: line('error'),
  info: line('info'),
  log: line('info'),
  trace: line('trace'),
  warn: line('warn'),
};
