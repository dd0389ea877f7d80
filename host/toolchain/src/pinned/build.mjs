// Bundles the project in the working folder and makes a component of it, of its tests without MAIN, or runs its tests in Node:
//   node build.mjs quickjs|starlingmonkey COMPONENT [MAIN]
//   node build.mjs test FOLDER

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { build, formatMessages } from 'esbuild';

import { bundling, webModules } from './modules.mjs';
import { withLargeStack } from './stack.mjs';
import { located, testFiles, testImports, testing } from './testing.mjs';

const [task, made, main] = process.argv.slice(2);
const folder = task === 'test' ? made : dirname(made);
const own = dirname(fileURLToPath(import.meta.url));
const wit = join(own, 'wit');

/** What each engine cannot run itself. */
const LOWERED = {
  quickjs: { 'async-await': false, 'async-generator': false, 'for-await': false },
  starlingmonkey: {},
};

/** What the bundler says of imports and calls of `require` that it leaves to the time when they run. */
const LATE = Object.fromEntries(
  ['ignored-dynamic-import', 'indirect-require', 'unsupported-dynamic-import', 'unsupported-require-call'].map((id) => [id, 'warning']),
);

const MAKERS = {
  async quickjs(jsPath) {
    const { componentize } = await import('componentize-qjs');
    const jsSource = readFileSync(jsPath, 'utf8');
    const made = await componentize({ witPath: wit, world: 'job', jsSource, jsPath, moduleRoot: folder, sync: true });
    return { component: withLargeStack(made.component) };
  },
  async starlingmonkey(sourcePath) {
    const { componentize } = await import('@bytecodealliance/componentize-js');
    return componentize({ sourcePath, witPath: wit, worldName: 'job' });
  },
};

/** Bundles modules. Says what is wrong with them, and ends, if they cannot be. */
async function bundle(options) {
  try {
    return await build({ bundle: true, format: 'esm', logLevel: 'warning', ...options });
  } catch (error) {
    if (!error.errors) throw error;
    process.exit(1);
  }
}

async function component() {
  const hasTests = main === undefined;
  if (hasTests) checkTypes();
  const from = hasTests ? ["'node:test'", ...testImports(testFiles())] : [JSON.stringify(resolve(main))];
  const bundled = join(folder, `${basename(made, '.wasm')}.js`);
  const ofTests = [testing, located((path) => `file:///${relative('.', path)}`)];
  const plugins = hasTests ? [...ofTests, ...bundling.plugins] : bundling.plugins;
  const options = { ...bundling, plugins, target: 'es2022', supported: LOWERED[task], write: false };
  const entry = (contents) => ({ contents, resolveDir: process.cwd(), sourcefile: 'host-jobs/src/entry.js' });
  const statement = (rest) => `${rest.startsWith('{') ? 'export' : 'import'} ${rest};\n`;
  const before = task === 'quickjs' ? await modulesBefore({ ...options, stdin: entry(from.map(statement).join('')) }) : [];
  const { outputFiles, warnings } = await bundle({
    ...options,
    logLevel: 'error',
    logOverride: LATE,
    stdin: entry([...before, `{ handler } from 'host-jobs/${task}'`, ...from].map(statement).join('')),
    external: ['host:*', 'wasi:*'],
    minifyWhitespace: true,
    lineLimit: 200,
    legalComments: 'none',
    sourcemap: 'external',
    outfile: bundled,
  });
  const [map, code] = ['.map', '.js'].map((ending) => outputFiles.find((file) => file.path.endsWith(ending)).text);
  writeFileSync(bundled, `${withOwnAsync(code)}globalThis.sourceMapOfHandlers = ${JSON.stringify(authorsLines(JSON.parse(map)))};\n`);
  const { component: bytes } = await MAKERS[task](bundled);
  writeFileSync(made, bytes);
  const others = warnings.filter(({ id }) => !(id in LATE));
  for (const text of await formatMessages(others, { kind: 'warning' })) console.error(text);
  writeFileSync(join(folder, 'report.json'), JSON.stringify({ warnings: warnings.map(lateImport).filter(Boolean) }));
}

/** Returns what a bundle will miss when it runs, as a sentence. */
function lateImport({ id, text, location }) {
  if (!(id in LATE)) return undefined;
  const { file, line, lineText } = location;
  const path = resolve(file);
  if ([realpathSync('node_modules/host-jobs'), own].some((start) => path.startsWith(start + sep))) return undefined;
  const where = `${relative('.', path)}:${line}`;
  const isOfPackage = path.includes(`${sep}node_modules${sep}`);
  if (id === 'ignored-dynamic-import') {
    const [, name] = /^Importing (".*?")/.exec(text) ?? [];
    // A package that lets it fail says what it does without it.
    return isOfPackage ? undefined : `${where}: ${name} is not installed, so what imports it will fail`;
  }
  // A package that looks whether there is `require` works without it, as each does that was bundled for browsers before.
  if (isOfPackage && /typeof require\b/.test(readFileSync(path, 'utf8'))) return undefined;
  return `${where}: a module that is named only when this runs is not in the component: ${lineText.trim().slice(0, 120)}`;
}

/** Lets our promises run async functions, which is faster than the bundler's way; `runAsync` is of the SDK. */
const withOwnAsync = (code) =>
  code.replace(/var __async ?= ?\((\w+), ?(\w+), ?(\w+)\) ?=> ?{/, (begin, ...given) =>
    `${begin}if(globalThis.runAsync)return runAsync(${given.slice(0, 3).join()});`,
  );

/** Returns what QuickJS must have before the modules of a handler: those globals that their code names. */
async function modulesBefore(options) {
  const { outputFiles } = await bundle({ ...options, external: ['host-jobs', 'host-jobs/*'], logLevel: 'error' });
  const names = webModules(outputFiles[0].text).map((name) => `'web:${name}'`);
  return ["'host-jobs/quickjs/globals'", ...names];
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** Returns for each line of a bundle where its parts begin (from 0), and from which source and line (from 1) they are, as text:
    it is small in the memory of each job. What calls the handler is in the SDK or the builder, and left out. */
function authorsLines({ sources, mappings }) {
  const sdk = realpathSync('node_modules/host-jobs');
  const paths = sources.map((source) => resolve(folder, source));
  const isAuthors = paths.map((path) => ![join(sdk, 'src'), own + sep].some((start) => path.startsWith(start)));
  let [source, line] = [0, 0];
  const lines = mappings.split(';').map((text) => {
    let at = 0;
    const parts = [];
    for (const segment of text.split(',').filter(Boolean)) {
      const numbers = decoded(segment);
      at += numbers[0];
      if (numbers.length < 4) continue;
      source += numbers[1];
      line += numbers[2];
      const [, lastSource, lastLine] = parts.at(-1) ?? [];
      if (isAuthors[source] && (lastSource !== source || lastLine !== line + 1)) parts.push([at, source, line + 1]);
    }
    return parts.map((part) => part.map((one) => one.toString(36)).join(' ')).join();
  });
  return { sources: paths.map((path) => relative('.', path)), lines: lines.join(';') };
}

/** Returns the numbers of a segment of a source map: digits of five bits, the lowest first; the lowest bit is the sign. */
function decoded(segment) {
  const numbers = [];
  let [value, shift] = [0, 0];
  for (const character of segment) {
    const digit = DIGITS.indexOf(character);
    value += (digit & 31) * 2 ** shift;
    shift += 5;
    if (digit & 32) continue;
    numbers.push(value & 1 ? -(value >>> 1) : value >>> 1);
    [value, shift] = [0, 0];
  }
  return numbers;
}

/** Checks the types of the project, if it has any. */
function checkTypes() {
  const tsc = 'node_modules/typescript/bin/tsc';
  if (existsSync('tsconfig.json') && existsSync(tsc)) ended(process.execPath, [tsc, '--noEmit']);
}

async function test() {
  checkTypes();
  const entryPoints = testFiles();
  if (entryPoints.length === 0) {
    console.error('no tests: their files end in .test.js or .test.ts');
    return;
  }
  const outdir = join(folder, 'tests');
  rmSync(outdir, { recursive: true, force: true });
  await bundle({ entryPoints, outdir, outbase: '.', platform: 'node', packages: 'external', loader: bundling.loader, plugins: [located((path) => pathToFileURL(path).href)], sourcemap: 'inline' });
  const files = readdirSync(outdir, { recursive: true }).filter((file) => file.endsWith('.js'));
  ended(process.execPath, ['--enable-source-maps', '--test', '--test-reporter=spec', ...files.map((file) => relative('.', join(outdir, file)))]);
}

/** Runs a program, and ends as it does if it fails. */
function ended(program, options) {
  const { status } = spawnSync(program, options, { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

await (task === 'test' ? test() : component());
