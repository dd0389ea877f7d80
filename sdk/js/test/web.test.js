// The globals of browsers that QuickJS lacks, compared with those of Node.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as events from '../src/web/events.js';
import * as own from '../src/web/fetch.js';

const theirs = { ...globalThis, AbortController, AbortSignal, Blob, Event, EventTarget, File, FormData, Headers, Request, Response };
const both = async (scenario) => {
  const ended = async (classes) => {
    try {
      return await scenario(classes);
    } catch (thrown) {
      return thrown.name;
    }
  };
  assert.deepEqual(await ended({ ...own, ...events }), await ended(theirs), String(scenario));
};

test('headers, requests and responses are as in the standard', async () => {
  for (const scenario of [
    ({ Headers }) => [...new Headers({ 'X-B': ' 1 ', a: '2' })],
    ({ Headers }) => [...new Headers([['a', '1'], ['A', '2'], ['set-cookie', 'x'], ['Set-Cookie', 'y']])],
    ({ Headers }) => new Headers({ a: 'b' }).get('none'),
    ({ Headers }) => new Headers({ 'a b': 'c' }),
    ({ Headers }) => new Headers({ a: 'b\nc' }),
    ({ Request }) => new Request('https://a.com/', { method: 'post', body: 'x' }).method,
    ({ Request }) => new Request('https://a.com/', { body: 'x' }),
    ({ Request }) => new Request(new Request('https://a.com/', { method: 'PUT', body: 'x', headers: { a: 'b' } })).headers.get('a'),
    ({ Request }) => new Request('https://a.com/', { method: 'POST', body: 'x' }).headers.get('content-type'),
    ({ Request }) => new Request('https://a.com/', { method: 'POST', body: new URLSearchParams('a=1') }).headers.get('content-type'),
    ({ Response }) => new Response('äö').text(),
    ({ Response }) => new Response(null, { status: 204 }).text(),
    ({ Response }) => new Response('{"a":1}').json(),
    ({ Response }) => new Response('x', { status: 700 }),
    ({ Response }) => Response.json({ a: 1 }).headers.get('content-type'),
    async ({ Response }) => {
      const response = new Response('once');
      return [await response.clone().text(), await response.text(), response.bodyUsed, await response.text()];
    },
    async ({ Response }) => {
      const pieces = [];
      for await (const piece of new Response('abc').body) pieces.push(...piece);
      return pieces;
    },
    ({ Response }) => new Response(new ReadableStream({ start: (it) => (it.enqueue(new Uint8Array([97])), it.close()) })).text(),
    async ({ Response }) => [...(await new Response('a=1&b=2', { headers: { 'content-type': 'application/x-www-form-urlencoded' } }).formData())],
  ]) {
    await both(scenario);
  }
});

test('blobs and forms are as in the standard', async () => {
  for (const scenario of [
    async ({ Blob }) => [await new Blob(['a', new Uint8Array([98]), new Blob(['ä'])]).text(), new Blob(['ä']).size],
    async ({ Blob }) => [await new Blob(['abcd']).slice(1, -1).text(), new Blob([], { type: 'A/B' }).type],
    ({ File }) => [new File(['a'], 'n.txt', { lastModified: 5 }).name, new File([], 'n', { lastModified: 5 }).lastModified],
    ({ FormData }) => {
      const form = new FormData();
      form.append('a', 1);
      form.append('a', '2');
      form.set('b', 'x');
      form.set('a', '3');
      form.delete('none');
      return [[...form], form.get('a'), form.get('none'), form.getAll('b'), form.has('a')];
    },
    ({ FormData, Blob }) => {
      const form = new FormData();
      form.append('f', new Blob(['x']), 'x.txt');
      return [form.get('f').name, form.get('f').size];
    },
  ]) {
    await both(scenario);
  }
  const form = new own.FormData();
  form.append('n"', 'ä');
  form.append('f', new own.Blob(['x'], { type: 'text/plain' }), 'x.txt');
  const request = new own.Request('https://a.com/', { method: 'POST', body: form });
  const read = await new Response(await request.bytes(), { headers: { 'content-type': request.headers.get('content-type') } }).formData();
  assert.deepEqual([read.get('n"') ?? read.get('n%22'), await read.get('f').text(), read.get('f').name], ['ä', 'x', 'x.txt']);
});

test('events and signals are as in the standard', async () => {
  // Node does not wait for the time of a signal.
  const alive = setInterval(() => {}, 5);
  for (const scenario of [
    ({ Event, EventTarget }) => {
      const seen = [];
      const target = new EventTarget();
      const listener = (event) => seen.push(event.type);
      target.addEventListener('a', listener);
      target.addEventListener('a', listener);
      target.addEventListener('a', { handleEvent: (event) => event.preventDefault() });
      target.addEventListener('a', () => seen.push('once'), { once: true });
      const first = target.dispatchEvent(new Event('a', { cancelable: true }));
      target.removeEventListener('a', listener);
      return [first, target.dispatchEvent(new Event('a')), seen];
    },
    ({ AbortController }) => {
      const { signal, ...rest } = new AbortController();
      return [signal.aborted, signal.reason, Object.keys(rest).length];
    },
    ({ AbortController }) => {
      const controller = new AbortController();
      let count = 0;
      controller.signal.addEventListener('abort', () => (count += 1));
      controller.abort();
      controller.abort();
      return [count, controller.signal.reason.name];
    },
    ({ AbortSignal }) => AbortSignal.abort(new RangeError('x')).throwIfAborted(),
    ({ AbortSignal, AbortController }) => AbortSignal.any([new AbortController().signal, AbortSignal.abort('b')]).reason,
    ({ AbortSignal }) => new Promise((resolve) => AbortSignal.timeout(1).addEventListener('abort', (event) => resolve(event.target.reason.name))),
    ({ AbortSignal }) => new AbortSignal(),
  ]) {
    await both(scenario);
  }
  clearInterval(alive);
});

test('a request of fetch has a body, a time limit and no headers of the connection', async () => {
  const sent = [];
  const fetch = own.fetchBy((request) => {
    sent.push(request);
    return { status: 200, headers: [['content-type', 'application/json']], body: new TextEncoder().encode('{"a":1}') };
  });
  const response = await fetch(new URL('https://a.com/x'), {
    method: 'post',
    body: new URLSearchParams({ a: '1' }),
    headers: { 'Content-Length': '3', Host: 'b.com', 'X-A': '1' },
    signal: events.AbortSignal.timeout(5000),
  });
  assert.deepEqual([response.url, await response.json()], ['https://a.com/x', { a: 1 }]);
  const [{ method, headers, body, timeoutMs }] = sent;
  assert.deepEqual([method, new TextDecoder().decode(body)], ['POST', 'a=1']);
  assert.deepEqual(headers, [['content-type', 'application/x-www-form-urlencoded;charset=UTF-8'], ['x-a', '1']]);
  assert.ok(timeoutMs > 0 && timeoutMs <= 5000, `${timeoutMs}`);
  await assert.rejects(fetch('https://a.com/', { signal: events.AbortSignal.abort(new TypeError('stopped')) }), /stopped/);
  assert.equal(sent.length, 1);
});
