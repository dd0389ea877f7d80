// The examples of the documents, run with the mock host.

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { MockHost, Response } from '../src/index.js';

const folder = await mkdtemp(join(tmpdir(), 'host-jobs-'));
after(() => rm(folder, { recursive: true }));

/** Runs the JavaScript of a document, which defines handlers. */
async function load(name) {
  const text = await readFile(new URL(`../../../docs/${name}.md`, import.meta.url), 'utf8');
  const blocks = [...text.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
  assert.ok(blocks.length > 0, `${name} has examples`);
  const own = new URL('../src/index.js', import.meta.url).href;
  for (const [at, code] of blocks.entries()) {
    const file = join(folder, `${name.replace('/', '-')}-${at}.mjs`);
    await writeFile(file, code.replaceAll("'host-jobs'", `'${own}'`));
    await import(file);
  }
}

test('requests', async () => {
  await load('requests');
  const host = new MockHost({ answer: () => new Response({ id: 'ch_1' }) });
  assert.deepEqual(await host.call('charge', { amount: 7 }), { id: 'ch_1' });
  assert.equal(host.requests[0].method, 'POST');
});

test('databases', async () => {
  await load('databases');
  const answer = (statement) =>
    statement.startsWith('SELECT') ? { columns: ['customer', 'total'], values: [['acme', '1.10']] } : undefined;
  const host = new MockHost({ sql: { shop: answer } });
  assert.equal(await host.call('report', '2026-01-01'), 1);
  assert.equal(host.statements.at(-1).statement, 'COMMIT');
});

test('coming from BullMQ', async () => {
  await load('from/bullmq');
  const host = new MockHost({ answer: () => new Response({}, { status: 404 }) });
  await assert.rejects(host.call('bullmq-inspect', { id: 7 }), /no such image/);
});

test('errors and retries', async () => {
  await load('guides/errors');
  const host = new MockHost({ answer: () => new Response({}, { status: 429 }) });
  await assert.rejects(host.call('refund', { amount: 7 }), /busy/);
  await assert.rejects(host.call('refund', { amount: 0 }), /not positive/);
});
