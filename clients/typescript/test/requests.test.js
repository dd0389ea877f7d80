// Which requests are sent again, with a `fetch` that answers as each test says.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client, Refused, ResultWithheld, Unreachable } from 'host-jobs-client';

const ACCEPTED = { id: 'a', state: 'available', existing: false };

const refusal = (status, code, after = '0') => () =>
  Response.json({ title: 'Title', detail: 'Detail', code, next: 'Next' }, { status, headers: { 'retry-after': after } });
const answer = (document) => () => Response.json(document);
const lost = (code) => () => {
  throw Object.assign(new TypeError('fetch failed'), { cause: Object.assign(new Error('gone'), { code }) });
};

/** A stream of blocks that ends after them, or breaks. */
const stream = (blocks, breaks) => () => {
  const text = blocks.map((block) => `${block}\n\n`).join('');
  const pull = (controller) => (breaks ? controller.error(new Error('broken')) : controller.close());
  const start = (controller) => controller.enqueue(new TextEncoder().encode(breaks ? text.slice(0, -20) : text));
  return new Response(new ReadableStream({ start, pull }, { highWaterMark: 0 }));
};
const change = (id) => `id: ${id}\nevent: change\ndata: {"job": "a", "to": "running"}`;

/** A client and the requests that it makes, which get these answers. */
function client(answers, options) {
  const requests = [];
  const fetch = async (url, request) => {
    requests.push({ url, ...request });
    return answers.shift()();
  };
  return [new Client({ server: 'http://127.0.0.1:1', token: 'hst_secret', fetch, ...options }), requests];
}

test('an enqueue is sent again with its key', async () => {
  const answers = [lost('ECONNRESET'), refusal(503, 'stopping'), refusal(504, 'outcome_unknown'), answer(ACCEPTED)];
  const [own, requests] = client(answers);
  assert.deepEqual(await own.enqueue('echo', { a: 1 }), ACCEPTED);
  assert.equal(new Set(requests.map((it) => it.body)).size, 1);
  assert.equal(requests.length, 4);
  assert.equal(JSON.parse(requests[0].body).unique.scope, 'retained');
  assert.equal(requests[0].headers.authorization, 'Bearer hst_secret');
});

test('with another key it may have been carried out', async () => {
  for (const options of [{ unique_key: 'k' }, { unique: { key: 'k' } }]) {
    const [own, requests] = client([lost('ECONNRESET')]);
    await assert.rejects(own.enqueue('echo', 1, options), (error) => error.mayHaveHappened);
    assert.equal(requests.length, 1);
  }
});

test('what had no effect is sent again', async () => {
  const answers = [refusal(429, 'rate_limited'), refusal(503, 'busy'), lost('ECONNREFUSED'), answer(ACCEPTED)];
  const [own, requests] = client(answers);
  assert.deepEqual(await own.retry('a/b?'), ACCEPTED);
  assert.equal(requests[3].url, 'http://127.0.0.1:1/api/v1/jobs/a%2Fb%3F/retry');
  const [stopping] = client([refusal(503, 'stopping')]);
  await assert.rejects(stopping.retry('a'), (error) => {
    assert(error instanceof Refused);
    assert.deepEqual([error.status, error.code, error.next], [503, 'stopping', 'Next']);
    return error.message === 'Title: Detail (stopping)';
  });
});

test('what is withheld is thrown by name', async () => {
  const job = { id: 'a', state: 'completed', withheld: ['params', 'result'] };
  const [own] = client([answer(ACCEPTED), answer(job)]);
  await assert.rejects(own.enqueueAndWait('echo'), (error) => {
    assert.deepEqual(error.job, job);
    return error instanceof ResultWithheld && error.message.includes('read_own');
  });
  const failed = { ...job, state: 'discarded', failure: { kind: 'trapped' }, withheld: ['failure'] };
  const [other] = client([answer(failed)]);
  await assert.rejects(other.result('a'), /trapped: its message is withheld/);
});

test('patience ends', async () => {
  const [slowed] = client([refusal(429, 'rate_limited', '60')], { patienceMs: 10_000 });
  await assert.rejects(slowed.job('a'), { retryAfter: 60 });
  const [away] = client([lost('ECONNREFUSED')], { patienceMs: 0 });
  await assert.rejects(away.enqueue('echo'), (error) => {
    assert(error instanceof Unreachable && !error.mayHaveHappened);
    return !String(error.stack).includes('hst_secret');
  });
});

test('arrays have at most 1000 jobs', async () => {
  const sizes = [];
  const [own, requests] = client([1000, 1000, 500].map((size) => answer(Array(size).fill(ACCEPTED))));
  async function* jobs() {
    for (let number = 0; number < 2500; number += 1) yield { handler: 'echo', params: number };
  }
  assert.equal(await own.enqueueMany(jobs(), (page) => sizes.push(page.length)), 2500);
  assert.deepEqual(sizes, [1000, 1000, 500]);
  assert.deepEqual(requests.map((it) => JSON.parse(it.body).length), sizes);
  const [split, parts] = client([answer([ACCEPTED]), answer([ACCEPTED])]);
  await split.enqueueMany(Array(2).fill({ handler: 'echo', params: 'x'.repeat(3 << 20) }));
  assert.equal(parts.length, 2);
  for (const named of ['#0', { job: '#0', when: 'ended' }]) {
    await assert.rejects(own.enqueueMany([{ handler: 'echo', depends_on: [named] }]), TypeError);
  }
});

test('a stream continues where it was', async () => {
  const gap = 'id: 9\nevent: gap\ndata: {"lost": 2}';
  const [own, requests] = client([
    stream([': listening\nid: 5']),
    stream([': listening\nid: 5', change(6), change(7)], true),
    stream([': listening\nid: 6', change(7), gap]),
    refusal(401, 'unauthenticated'),
  ]);
  const events = await own.events({ queue: 'mail' });
  const seen = [];
  for (let count = 0; count < 3; count += 1) seen.push((await events.next()).value);
  assert.deepEqual(seen.map((it) => [it.kind, it.id]), [['change', 6], ['change', 7], ['gap', 9]]);
  await assert.rejects(events.next(), Refused);
  assert.deepEqual(requests.map((it) => it.headers['last-event-id']), [undefined, '5', '6', '9']);
});
