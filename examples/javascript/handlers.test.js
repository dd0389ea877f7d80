// Tests of the handlers, with an API that fails.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { MockHost, Response } from 'host-jobs';

import { fetchOrders } from './handlers.js';

/** An API with the orders 1 to 5, two on a page. It fails at the page after `failsAfter`. */
const api = (failsAfter) => (request) => {
  const after = new URL(request.url).searchParams.get('after');
  if (after === failsAfter) return new Response('', { status: 503 });
  const first = Number(after) + 1;
  const orders = [first, first + 1].filter((n) => n <= 5).map((n) => ({ id: String(n), cents: 100 * n }));
  return new Response({ orders, next: orders.at(-1)?.id ?? null });
};

const fetchPages = (host, pages) => host.run(fetchOrders, { url: 'https://api.example.com/orders', pages });

test('each job continues where the last one ended', async () => {
  const host = new MockHost({ answer: api('never') });
  assert.deepEqual(await fetchPages(host, 2), { orders: 4, cursor: '4' });
  assert.equal((await fetchPages(host, 2)).orders, 1);
  assert.equal((await fetchPages(host, 2)).orders, 0, 'nothing is new');
  assert.deepEqual(host.enqueued.map((job) => job.params.id), ['1', '2', '3', '4', '5']);
  assert.equal(host.enqueued[4].queue, 'orders');
  assert.equal(host.state('cursor'), '5');
});

test('an attempt that fails in the middle leaves nothing', async () => {
  const host = new MockHost({ answer: api('2') });
  await fetchPages(host, 1);
  await assert.rejects(fetchPages(host, 2), { retryable: true });
  assert.equal(host.enqueued.length, 2, 'those of the first page');
  assert.equal(host.state('cursor'), '2');
});
