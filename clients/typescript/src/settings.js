// Finds the host and the token as the command line does: options, the environment, then the context.

import { SettingsError } from './errors.js';
import { check as checkFiles, fetchWith } from './files.js';

const SERVER_DEFAULT = 'http://127.0.0.1:7700';

const variable = (name) => globalThis.process?.env?.[name] || undefined;

function readFile(path, what) {
  const fs = globalThis.process?.getBuiltinModule?.('node:fs');
  if (!fs) throw new SettingsError(`cannot read ${what} in ${path}: there are no files here`);
  try {
    return fs.readFileSync(path, 'utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    if (error.code === 'ENOENT' && what === 'the contexts') return '';
    throw new SettingsError(`cannot read ${what} in ${path}: ${error.code}`);
  }
}

/** Reads what `host context set` writes: tables, and keys with texts on one line. */
function parse(text, path) {
  const contexts = {};
  let table = contexts;
  const unquoted = (word) => {
    if (/^".*"$/.test(word)) return JSON.parse(word);
    return word.replace(/^'(.*)'$/, '$1');
  };
  for (const line of text.split('\n').map((it) => it.trim())) {
    const head = /^\[contexts\.(.+)\]$/.exec(line);
    const pair = /^(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*')$/.exec(line);
    if (head) table = (contexts.contexts ??= {})[unquoted(head[1])] = {};
    else if (pair) table[pair[1]] = unquoted(pair[2]);
    else if (line && !line.startsWith('#') && line !== '[contexts]') {
      throw new SettingsError(`cannot read the contexts in ${path}: ${line}`);
    }
  }
  return contexts;
}

/** Returns the context with a name, or the current one if there is one. */
function contextOf(name) {
  const home = variable('HOME');
  const base = variable('XDG_CONFIG_HOME') ?? (home && `${home}/.config`);
  const path = `${base}/host/contexts.toml`;
  const contexts = base ? parse(readFile(path, 'the contexts'), path) : {};
  name ??= contexts.current;
  if (name === undefined) return {};
  if (!Object.hasOwn(contexts.contexts ?? {}, name)) {
    throw new SettingsError(`no context has the name ${name}; \`host context ls\` lists them`);
  }
  return contexts.contexts[name];
}

const isLoopback = (host) => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(host);

function check(server, token) {
  const shown = server.replace(/\/\/.*@/, '//…@');
  const parts = /^(https?):\/\/([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(:\d+)?$/.exec(server);
  if (!parts) {
    throw new SettingsError(`${shown}: write the host's address as a URL without a path, such as ${SERVER_DEFAULT}`);
  }
  if (token === undefined) return;
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new SettingsError('the token contains an invalid character; check where it comes from');
  }
  if (parts[1] === 'http' && !isLoopback(parts[2].toLowerCase())) {
    throw new SettingsError(`${shown}: a token is not sent to another machine without TLS; use https://`);
  }
}

/** Completes the options of a client. What belongs to a context is shown to no other server. */
export function resolve({ server, token, tokenFile, context, fetch } = {}) {
  if (server && context) throw new SettingsError('give a server or a context, not both');
  if (!context) server ||= variable('HOST_SERVER');
  const kept = server ? {} : contextOf(context);
  server = (server || kept.server || SERVER_DEFAULT).replace(/\/+$/, '');
  if (!token) {
    const given = variable('HOST_TOKEN');
    const file = tokenFile || variable('HOST_TOKEN_FILE') || (given ? undefined : kept.token_file);
    token = file ? readFile(file, 'the token').trim() : given?.trim();
  }
  check(server, token);
  const isSecure = server.startsWith('https:');
  return { server, token, fetch: fetch ?? (isSecure ? fetchOf(kept, server) : undefined) };
}

/** Returns the `fetch` that uses the files for TLS of a context, if it has any. */
function fetchOf({ ca_file, client_cert, client_key }, server) {
  if (!ca_file && !client_cert) return undefined;
  const read = (path, what) => path && readFile(path, what);
  const files = {
    ca: read(ca_file, 'the authorities'),
    cert: read(client_cert, 'the certificate'),
    key: read(client_key, 'its key'),
  };
  checkFiles(files, server);
  return fetchWith(files);
}
