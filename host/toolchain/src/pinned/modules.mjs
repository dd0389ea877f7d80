// How modules are found: those of packages as for a browser, those of Node as far as they can be served, and the globals that
// QuickJS lacks as far as the code names them.

import { builtinModules, createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const own = dirname(fileURLToPath(import.meta.url));

/** The modules of Node that a package of ours serves, and those that the SDK does. */
const SERVED = [
  ...['assert', 'assert/strict', 'async_hooks', 'buffer', 'constants', 'diagnostics_channel', 'events', 'os', 'path'],
  ...['path/posix', 'punycode'],
  ...['querystring', 'stream', 'string_decoder', 'timers', 'timers/promises', 'tty', 'url', 'util', 'zlib'],
];
const OF_SDK = ['crypto', 'process'];
const ALIASES = { 'stream/web': 'stream/web', sys: 'util', 'util/types': 'util' };

/** What the modules of Node that cannot be served would need. */
const NEEDS = [
  [/^fs/, 'a file system of Node'],
  [/^(child_process|cluster|worker_threads)/, 'processes or threads'],
  [/^(net|tls|dgram|dns|http2)/, 'sockets; requests go through `fetch`'],
  [/^https?$/, 'sockets; requests go through `fetch`'],
];

/** The modules of the SDK with globals that QuickJS lacks, and the names of these. */
const WEB = {
  events: ['AbortController', 'AbortSignal', 'CustomEvent', 'Event', 'EventTarget'],
  url: ['URL', 'URLSearchParams'],
  clone: ['structuredClone'],
  streams: [
    ...['ReadableStream', 'WritableStream', 'TransformStream', 'TextDecoderStream', 'TextEncoderStream'],
    ...['ByteLengthQueuingStrategy', 'CountQueuingStrategy'],
  ],
  crypto: ['crypto', 'Crypto', 'CryptoKey', 'SubtleCrypto'],
  intl: ['Intl'],
  zones: [],
  network: ['fetch', 'Blob', 'File', 'FormData', 'Headers', 'Request', 'Response'],
};

/** What is a stream without its name, what formats in a language, and what may do so in a time zone. */
const STREAMING = /\.body\b|\.getReader\b|\.stream\(\)/;
const FORMATTING = /\.toLocale(Date|Time)?String\(/;
const IN_ZONES = /\bDateTimeFormat\b|\btimeZone\b|\.toLocale(Date|Time)String\(/;

/** Returns the modules of the SDK with the globals that a code names. */
export function webModules(code) {
  const isNamed = (name) => new RegExp(`(?<![.\\w$])${name}\\b|\\b(?:globalThis|global|self|window)\\??\\.${name}\\b`).test(code);
  const named = Object.keys(WEB).filter((module) => WEB[module].some(isNamed));
  const implied = {
    streams: named.includes('network') && STREAMING.test(code),
    intl: FORMATTING.test(code),
    zones: (named.includes('intl') || FORMATTING.test(code)) && IN_ZONES.test(code),
  };
  return Object.keys(WEB).filter((it) => named.includes(it) || implied[it]);
}

/** Makes a module whose parts say what is wrong when they are called. */
function refusal(name) {
  const [, need] = NEEDS.find(([pattern]) => pattern.test(name)) ?? [undefined, 'what a component does not have'];
  const message = `node:${name} is not there in a component: it needs ${need}`;
  return `
    const refuse = (path) =>
      new Proxy(function () {}, {
        get: (it, name) =>
          name === 'prototype' ? it.prototype : typeof name === 'symbol' || name === 'then' || name === '__esModule' ? undefined : refuse(path + '.' + name),
        apply() { throw new Error(${JSON.stringify(message)} + ' (' + path + ' was called)'); },
        construct() { throw new Error(${JSON.stringify(message)} + ' (' + path + ' was made)'); },
      });
    // An import by name looks for it in a copy, which has this prototype.
    module.exports = new Proxy(refuse(${JSON.stringify(name)}), { getPrototypeOf: () => refuse(${JSON.stringify(name)}) });`;
}

/** The years of which times in zones are known exactly; those of all years would be a megabyte. */
const YEARS = [1970, 2037];

/** Returns the rules of all time zones, a line for each name. */
function timeZones() {
  const require = createRequire(import.meta.url);
  const { tz } = require('moment-timezone/moment-timezone-utils');
  const { zones, links } = require('moment-timezone/data/packed/latest.json');
  const packed = tz.filterLinkPack({ zones: zones.map(tz.unpack), links }, ...YEARS);
  return [...packed.zones, ...packed.links.map((link) => link.split('|').reverse().join('|'))].join('\n');
}

/** Marks what must not come back to us. */
const ASKED = {};

const builtins = {
  name: 'builtins',
  setup(build) {
    build.onResolve({ filter: /^(node:)?[a-z_0-9]+(\/[a-z_0-9]+)*$/ }, async ({ path, kind, importer, resolveDir, pluginData }) => {
      const name = path.replace(/^node:/, '');
      if (pluginData === ASKED || !builtinModules.includes(name)) return undefined;
      if (!path.startsWith('node:') && !resolveDir.startsWith(own)) {
        // A package may have a replacement, or say that it needs none.
        const found = await build.resolve(path, { kind, importer, resolveDir, pluginData: ASKED });
        if (found.errors.length === 0) return found;
      }
      const served = ALIASES[name] ?? name;
      const isServed = SERVED.includes(served) || OF_SDK.includes(served) || served === 'stream/web';
      if (!isServed) return { path: name, namespace: 'refused' };
      // A package in CommonJS expects the whole module, not one with a default.
      if (kind === 'require-call') return { path: served, namespace: 'required', sideEffects: false };
      return serve(build, served, kind);
    });
    const serve = async (build, name, kind) => {
      const from = SERVED.includes(name) ? `@jspm/core/nodelibs/${name}` : `host-jobs/${name === 'stream/web' ? 'web/streams' : `node/${name}`}`;
      const found = await build.resolve(from, { kind: kind === 'require-call' ? 'import-statement' : kind, resolveDir: SERVED.includes(name) ? own : process.cwd() });
      return { ...found, sideEffects: false };
    };
    build.onResolve({ filter: /^served:/ }, ({ path }) => serve(build, path.slice('served:'.length), 'import-statement'));
    build.onLoad({ filter: /.*/, namespace: 'required' }, ({ path }) => ({
      contents: `const it = require('served:${path}'); module.exports = it.default ?? it;`,
      resolveDir: process.cwd(),
    }));
    build.onLoad({ filter: /.*/, namespace: 'refused' }, ({ path }) => ({ contents: refusal(path) }));
    build.onResolve({ filter: /^time-zones$/ }, ({ path }) => ({ path, namespace: 'time-zones' }));
    build.onLoad({ filter: /.*/, namespace: 'time-zones' }, () => ({ contents: timeZones(), loader: 'text' }));
    build.onResolve({ filter: /^web:/ }, ({ path }) => ({ path: path.slice('web:'.length), namespace: 'web' }));
    build.onLoad({ filter: /.*/, namespace: 'web' }, ({ path }) => ({
      contents: `import * as it from 'host-jobs/web/${path}'; Object.assign(globalThis, it);`,
      resolveDir: process.cwd(),
    }));
  },
};

/** How esbuild bundles for a component. */
export const bundling = {
  platform: 'browser',
  mainFields: ['browser', 'module', 'main'],
  conditions: ['worker', 'browser', 'module', 'import', 'default'],
  define: { global: 'globalThis', 'import.meta.url': '"file:///handlers.js"', 'process.env.NODE_ENV': '"production"' },
  inject: [join(own, 'globals.mjs')],
  // The packages that the SDK needs for what QuickJS lacks.
  nodePaths: [join(own, 'node_modules')],
  loader: Object.fromEntries(
    ['.txt', '.html', '.md', '.csv', '.sql', '.xml', '.svg', '.hbs', '.mustache', '.yaml', '.yml', '.pem', '.graphql'].map((ending) => [ending, 'text']),
  ),
  plugins: [builtins],
};
