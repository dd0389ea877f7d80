// How the tests of a project are bundled: `node:test` is ours, and test files, unlike handlers, may read the files of the project.

import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const own = dirname(fileURLToPath(import.meta.url));

/** The runner of tests. */
const RUNNER = join(own, 'node_test.mjs');

/** How many bytes of files the tests may read, the smallest first. */
const FILES_MAX = 2 << 20;

/** Returns the files of the project. */
function projectFiles() {
  const isApart = (file) => /(^|\/)(node_modules|target|host-jobs|\.[^/]*)(\/|$)/.test(file);
  return readdirSync('.', { recursive: true }).filter((file) => !isApart(file) && statSync(file).isFile());
}

const isTest = (file) => /\.test\.[mc]?[jt]s$/.test(file);

/** Returns the files with tests. */
export const testFiles = () => projectFiles().filter(isTest).sort();

/** Returns whether a file belongs to the tests. */
const isOfTests = (file) => isTest(file) || /(^|\/)tests?\//.test(relative('.', file));

/** Returns the statements that import the tests of the project. */
export const testImports = (files) =>
  files.flatMap((file) => [JSON.stringify(`begin:${file}`), JSON.stringify(join(process.cwd(), file))]);

/** Makes a module that reads the files of the project. */
function filesModule() {
  const sizes = projectFiles().map((file) => ({ file, size: statSync(file).size }));
  const files = {};
  let left = FILES_MAX;
  for (const { file, size } of sizes.sort((one, other) => one.size - other.size)) {
    left -= size;
    if (left < 0) break;
    files[file] = readFileSync(file, 'base64');
  }
  return `
    import { Buffer } from 'node:buffer';
    const files = ${JSON.stringify(files)};
    const keyOf = (path) => {
      const parts = [];
      for (const part of String(path).replace(/^file:\\/\\//, '').split('/')) {
        if (part === '..') parts.pop();
        else if (part && part !== '.') parts.push(part);
      }
      return parts.join('/');
    };
    export const existsSync = (path) => keyOf(path) in files || Object.keys(files).some((file) => file.startsWith(keyOf(path) + '/'));
    export function readFileSync(path, options) {
      const content = files[keyOf(path)];
      if (content === undefined) {
        const message = "ENOENT: no such file or directory, open '" + path + "'; tests read up to ${FILES_MAX >> 20} MiB of the project's files";
        throw Object.assign(new Error(message), { code: 'ENOENT', path });
      }
      const encoding = typeof options === 'string' ? options : options?.encoding;
      const bytes = Buffer.from(content, 'base64');
      return encoding ? bytes.toString(encoding) : bytes;
    }
    export function readdirSync(path) {
      const below = keyOf(path) && keyOf(path) + '/';
      const names = Object.keys(files).filter((file) => file.startsWith(below)).map((file) => file.slice(below.length).split('/')[0]);
      return [...new Set(names)].sort();
    }
    export const readFile = async (path, options) => readFileSync(path, options);
    export const promises = { readFile };
    export default { existsSync, promises, readdirSync, readFile, readFileSync };`;
}

/** Finds what only tests may import. */
export const testing = {
  name: 'testing',
  setup(build) {
    build.onResolve({ filter: /^node:test$/ }, () => ({ path: RUNNER }));
    build.onResolve({ filter: /^host-jobs$/ }, ({ path, kind, importer }) =>
      importer === RUNNER ? build.resolve(path, { kind, resolveDir: process.cwd() }) : undefined,
    );
    build.onResolve({ filter: /^(node:)?fs(\/promises)?$/ }, ({ importer }) =>
      isOfTests(importer) ? { path: 'files', namespace: 'files' } : undefined,
    );
    build.onLoad({ filter: /.*/, namespace: 'files' }, () => ({ contents: filesModule(), resolveDir: own }));
    build.onResolve({ filter: /^begin:/ }, ({ path }) => ({ path: path.slice('begin:'.length), namespace: 'begin' }));
    build.onLoad({ filter: /.*/, namespace: 'begin' }, ({ path }) => ({
      contents: `import { begin } from 'node:test'; begin(${JSON.stringify(path)});`,
      resolveDir: process.cwd(),
    }));
  },
};

/** Lets a file with tests know where it is: bundled, it would be elsewhere. `urlOf` returns the URL of a path. */
export const located = (urlOf) => ({
  name: 'located',
  setup(build) {
    build.onLoad({ filter: /\.test\.[mc]?[jt]s$/ }, ({ path }) => {
      const url = urlOf(path);
      const folder = fileURLToPath(new URL('.', url)).replace(/(.)\/$/, '$1');
      const contents = readFileSync(path, 'utf8')
        .replaceAll('import.meta.url', JSON.stringify(url))
        .replaceAll('import.meta.dirname', JSON.stringify(folder));
      return { contents, loader: /\.[mc]?ts$/.test(path) ? 'ts' : 'js' };
    });
  },
});
