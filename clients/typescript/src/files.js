// A `fetch` that uses the files for TLS of a context. That of Node.js takes certificates only from its environment.

import { SettingsError } from './errors.js';

const builtin = (name) => globalThis.process?.getBuiltinModule?.(name);

/** Returns a `fetch` over HTTPS that trusts the authorities and presents the certificate of these files. */
export function fetchWith({ ca, cert, key }) {
  const [https, stream] = [builtin('node:https'), builtin('node:stream')];
  const agent = new https.Agent({ ca, cert, key, keepAlive: true });
  return async (url, options) => {
    // It knows how to write a body, and which headers that needs.
    const { body, method, headers } = new Request(url, { ...options, signal: undefined });
    const sent = body ? Buffer.from(await new Response(body).arrayBuffer()) : undefined;
    if (sent) headers.set('content-length', sent.length);
    return new Promise((resolve, reject) => {
      const request = https.request(url, {
        agent, method, headers: Object.fromEntries(headers), signal: options.signal,
      });
      request.on('error', reject).on('response', (answer) => {
        const status = answer.statusCode;
        if (status >= 300 && status < 400) {
          answer.destroy();
          reject(new Error(`unexpected redirect (${status})`));
          return;
        }
        const isEmpty = status === 204;
        if (isEmpty) answer.resume();
        const text = isEmpty ? null : stream.Readable.toWeb(answer);
        resolve(new Response(text, { status, headers: Object.entries(answer.headers) }));
      });
      request.end(sent);
    });
  };
}

/** Refuses files that TLS cannot use. */
export function check(files, server) {
  const tls = builtin('node:tls');
  if (!tls) throw new SettingsError(`${server}: there are no files here; give a \`fetch\` that has the certificates`);
  try {
    // TLS passes over an authority that it cannot read.
    if (files.ca) new (builtin('node:crypto').X509Certificate)(files.ca);
    tls.createSecureContext(files);
  } catch (error) {
    throw new SettingsError(`${server}: cannot use the files for TLS of this context: ${error.message}`);
  }
}
