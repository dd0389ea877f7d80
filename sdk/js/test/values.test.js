// Whatever an author hands over, throws or returns ends as a value that the host takes, or as an exception at the author's line.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Cancelled, handler, JobError, MockHost, Response, Retry } from 'host-jobs';

import { failure } from '../src/errors.js';

const cycle = { name: 'cycle' };
cycle.self = cycle;
const deep = JSON.parse(`${'['.repeat(200)}${']'.repeat(200)}`);
const hostile = {
  toString() { throw new Error('no text'); },
  toJSON() { throw new Error('no JSON'); },
};

/** Values of each kind. */
const VALUES = [
  undefined, null, true, 0, -1, 0.5, NaN, Infinity, 2 ** 33, 10n, '', 'text', 'half \ud83d', 'x'.repeat(60_000), Symbol('s'),
  () => 1, class {}, {}, [], [1], cycle, deep, hostile, Object.create(null), new Map([[1, cycle]]), new Set([1]), new Date(0),
  new Date(NaN), /x/, new Uint8Array([1]), new Uint16Array([1]), new DataView(new ArrayBuffer(2)), new ArrayBuffer(2),
  new URLSearchParams({ a: '1' }), new URL('https://example.com'), new Error('an error'), Promise.resolve(1),
  new Proxy({}, { get() { throw new Error('no part'); } }), new Proxy({}, { ownKeys() { throw new Error('no keys'); } }),
];

const isText = (value) => typeof value === 'string' && value.isWellFormed();

/** Whether the host takes a failure. */
function assertTaken({ tag, val }) {
  if (tag === 'retry') {
    assert.ok(isText(val.reason));
    assert.ok(val.afterMs === undefined || (Number.isInteger(val.afterMs) && val.afterMs >= 0 && val.afterMs < 2 ** 32), val.afterMs);
    return;
  }
  if (tag === 'cancelled') return void (val === undefined || JSON.parse(val));
  for (const key of ['category', 'kind', 'message']) assert.ok(isText(val[key]), key);
  for (const key of ['code', 'stack']) assert.ok(val[key] === undefined || isText(val[key]), key);
  assert.ok(val.message.length < 10_000 && (val.stack ?? '').length < 20_000);
  assert.ok([undefined, true, false].includes(val.retryable));
  if (val.details !== undefined) {
    JSON.parse(val.details);
    assert.ok(isText(val.details) && val.details.length < 100_000);
  }
}

/** Returns what a call throws; that must be an exception of the SDK or one of the value's own. */
async function thrownBy(call) {
  try {
    await call();
    return undefined;
  } catch (thrown) {
    const isOurs = thrown instanceof TypeError || thrown instanceof RangeError || thrown instanceof JobError;
    assert.ok(isOurs || /^no (part|keys|text|JSON)$/.test(thrown?.message), thrown);
    return thrown;
  }
}

test('whatever is thrown is described', () => {
  for (const value of VALUES) assertTaken(failure(value));
  for (const value of VALUES) {
    for (const make of [
      () => new JobError(value),
      ...['kind', 'category', 'code', 'details', 'retryable', 'cause'].map((name) => () => new JobError('m', { [name]: value })),
      () => new Retry(value),
      () => new Retry('r', { afterMs: value }),
      () => new Cancelled(value),
      () => Object.assign(new Error('m'), { name: value, message: value, stack: value, cause: value, errors: value }),
      () => Object.assign(new JobError('m'), { kind: value, category: 'USER_CODE', code: value, details: value }),
      () => new AggregateError([value, new Error('two')], 'several', { cause: value }),
    ]) {
      let made;
      try {
        made = make();
      } catch (thrown) {
        assert.ok(thrown instanceof TypeError || thrown instanceof RangeError, thrown);
        continue;
      }
      assertTaken(failure(made));
    }
  }
});

test('whatever is given to the context is converted or refused', async () => {
  for (const value of VALUES) {
    const host = new MockHost({ answer: () => new Response({}), secrets: { text: 's' }, limits: ['text'] });
    const { ctx } = host;
    for (const call of [
      () => ctx.progress(value, value),
      () => ctx.sleep(value),
      () => ctx.log(value, 'm'),
      () => ctx.info(value, { field: value }),
      () => ctx.info('m', value),
      () => ctx.enqueue(value),
      () => ctx.enqueueAll(value),
      () => ctx.enqueueNow({ handler: value, params: value }),
      () => ctx.hold(value, 1),
      () => ctx.hold('text', value),
      () => ctx.secret(value),
      () => ctx.attribute(value),
      () => ctx.state.set(value, 1),
      () => ctx.state.set('k', value),
      () => ctx.state.setBytes('k', value),
      () => ctx.state.get(value),
      () => ctx.state.delete(value),
      () => ctx.state.list(value),
      () => ctx.state.shared(value).set('k', 1),
      () => ctx.state.compareAndSet('k', value, value),
      () => ctx.fetch(value),
      ...['method', 'headers', 'body', 'json', 'timeoutMs'].map((name) => () => ctx.fetch('https://a.com', { [name]: value })),
      () => ctx.fetch('https://a.com', { headers: { n: value } }),
    ]) {
      await thrownBy(call);
    }
    for (const { level, message, fields } of host.logs) {
      assert.ok([level, message, ...Object.keys(fields)].every(isText));
      assert.ok(JSON.stringify(fields).isWellFormed());
    }
    for (const { percent, message } of host.progress) {
      assert.ok((percent === undefined || (percent >= 0 && percent <= 100)) && isText(message));
    }
    for (const { body, url, method, headers, timeoutMs } of host.requests) {
      assert.ok(body instanceof Uint8Array);
      assert.ok([url, method, ...headers.flat()].every(isText), url);
      assert.ok(timeoutMs === undefined || (timeoutMs >= 0 && timeoutMs < 2 ** 32));
    }
    assert.ok(host.sleptMs >= 0 && host.sleptMs < 2 ** 32);
    assert.ok(host.holds.every(({ limit, ms }) => isText(limit) && Number.isInteger(ms) && ms >= 0));
  }
});

test('whatever is returned is a result or an error of the handler', async () => {
  for (const value of VALUES) {
    handler('returns', {}, () => value);
    const thrown = await thrownBy(() => new MockHost().call('returns'));
    if (thrown) assertTaken(failure(thrown));
  }
});

test('times are never negative, and never wrap around', async () => {
  assert.equal(new Retry('r', { afterMs: -1 }).afterMs, 0);
  assert.equal(new Retry('r', { afterMs: 0.2 }).afterMs, 1);
  assert.throws(() => new Retry('r', { afterMs: 2 ** 32 }), RangeError);
  assert.throws(() => new Retry('r', { afterMs: 'soon' }), /afterMs: expected milliseconds, got soon/);
  const host = new MockHost();
  host.ctx.sleep(-5);
  assert.equal(host.sleptMs, 0);
});

test('what is refused is named', async () => {
  const { ctx } = new MockHost({ answer: () => new Response({}) });
  assert.throws(() => ctx.state.set(7, 1), /a key of state: expected a text, got 7 \(number\)/);
  await assert.rejects(ctx.fetch('https://a.com', { body: { a: 1 } }), /give values as `json`/);
  assert.equal(failure(new JobError('m', { code: 404 })).val.code, '404');
  assert.equal(failure(new JobError('m', { details: { at: new Date(0), n: 1n, cycle } })).val.details,
    '{"at":"1970-01-01T00:00:00.000Z","n":"1","cycle":{"name":"cycle","self":"(a cycle)"}}');
  assert.match(failure(new Error('x'.repeat(3_000_000))).val.message, /… \(2991808 more characters\)$/);
});

test('a request has one content type, the author\'s', async () => {
  const host = new MockHost({ answer: () => new Response({}) });
  await host.ctx.fetch('https://a.com', { method: 'POST', json: {}, headers: { 'Content-Type': 'application/vnd.a+json' } });
  await host.ctx.fetch('https://a.com', { method: 'POST', body: new URLSearchParams({ a: 'ä' }) });
  const [own, form] = host.requests;
  assert.deepEqual(own.headers, [['Content-Type', 'application/vnd.a+json']]);
  assert.deepEqual(form.headers, [['content-type', 'application/x-www-form-urlencoded;charset=UTF-8']]);
  assert.equal(new TextDecoder().decode(form.body), 'a=%C3%A4');
});

test('a stack has causes, and the parts of an error of several', () => {
  const cause = new TypeError('the cause');
  const several = new AggregateError([new Error('one'), 'two'], 'several', { cause });
  const { stack } = failure(new Error('outer', { cause: several })).val;
  for (const line of ['Error: outer', 'Caused by: AggregateError: several', 'Caused by: TypeError: the cause', 'Error 1 of 2: Error: one', 'Error 2 of 2: Error: two']) {
    assert.ok(stack.includes(line), `${line} in ${stack}`);
  }
  const loop = new Error('loop');
  loop.cause = loop;
  assert.match(failure(loop).val.stack, /^Error: loop\n/);
});
