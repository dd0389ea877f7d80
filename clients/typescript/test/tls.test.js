// The files for TLS of a context, at a server with a certificate of an authority that only they name.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { Client, Refused, SettingsError } from 'host-jobs-client';

const openssl = (folder, ...given) => execFileSync('openssl', given, { cwd: folder, stdio: 'ignore' });

/** Makes an authority and certificates of it. */
function certify(folder) {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  openssl(folder, 'req', '-x509', ...key, '-subj', '/CN=authority', '-keyout', 'ca.key', '-out', 'ca.pem');
  for (const name of ['server', 'client']) {
    const names = ['-addext', 'subjectAltName=DNS:localhost'];
    openssl(folder, 'req', ...key, '-subj', `/CN=${name}`, ...names, '-keyout', `${name}.key`, '-out', `${name}.csr`);
    const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-copy_extensions', 'copy'];
    openssl(folder, 'x509', '-req', '-in', `${name}.csr`, ...signed, '-out', `${name}.pem`);
  }
}

function answer(request, response) {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk)).on('end', () => {
    const { method, url, headers, socket } = request;
    if (url.endsWith('/moved')) return response.writeHead(307, { location: '/' }).end();
    const type = headers['content-type'];
    const seen = { method, url, type, token: headers.authorization, body: Buffer.concat(chunks).toString() };
    const status = url.includes('refused') ? 404 : 200;
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ ...seen, code: 'no', client: socket.getPeerCertificate().subject?.CN }));
  });
}

/** Writes the current context with these files, and returns a client of it. */
function clientOf(folder, server, files) {
  const lines = Object.entries({ server, ...files }).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  writeFileSync(join(folder, 'host/contexts.toml'), `current = "a"\n[contexts.a]\n${lines.join('\n')}\n`);
  return new Client({ token: 'hst_secret', patienceMs: 0 });
}

test('the files for TLS of a context are used', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'client-'));
  const file = (name) => join(folder, name);
  mkdirSync(file('host'));
  process.env.XDG_CONFIG_HOME = folder;
  for (const name of ['HOST_SERVER', 'HOST_TOKEN', 'HOST_TOKEN_FILE']) delete process.env[name];
  certify(folder);
  const read = (name) => readFileSync(file(name));
  const tls = { key: read('server.key'), cert: read('server.pem'), ca: read('ca.pem'), requestCert: true };
  const listening = createServer({ ...tls, rejectUnauthorized: false }, answer);
  await new Promise((resolve) => listening.listen(0, '127.0.0.1', resolve));
  const server = `https://localhost:${listening.address().port}`;
  try {
    const trusting = clientOf(folder, server, { ca_file: file('ca.pem') });
    const job = await trusting.job('a');
    assert.deepEqual([job.method, job.url, job.token], ['GET', '/api/v1/jobs/a', 'Bearer hst_secret']);
    assert.equal(job.client, undefined);
    const enqueued = await trusting.enqueue('echo', { a: 'é' });
    assert.deepEqual(JSON.parse(enqueued.body).params, { a: 'é' });
    assert.deepEqual([enqueued.method, enqueued.type], ['POST', 'application/json']);
    await assert.rejects(trusting.job('refused'), (error) => error instanceof Refused && error.status === 404);
    await assert.rejects(trusting.job('moved'), /redirect/);
    const cert = { ca_file: file('ca.pem'), client_cert: file('client.pem'), client_key: file('client.key') };
    assert.equal((await clientOf(folder, server, cert).job('a')).client, 'client');
    await assert.rejects(clientOf(folder, server, {}).job('a'), SettingsError);
    const { fetch } = globalThis;
    assert.equal(new Client({ fetch }).server, server);
    assert.throws(() => clientOf(folder, server, { ca_file: file('none.pem') }), /cannot read the authorities.*ENOENT/);
    writeFileSync(file('wrong.pem'), '-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n');
    assert.throws(() => clientOf(folder, server, { ca_file: file('wrong.pem') }), /cannot use the files for TLS/);
  } finally {
    listening.closeAllConnections();
    listening.close();
    rmSync(folder, { recursive: true });
  }
});
