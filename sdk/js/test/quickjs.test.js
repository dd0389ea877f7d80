// What QuickJS lacks, compared with what Node has.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Promise as Own } from '../src/quickjs/promise.js';
import { clearTimeout, queueMicrotask, run, setTimeout } from '../src/quickjs/queue.js';
import { random, seed } from '../src/quickjs/random.js';
import * as text from '../src/quickjs/text.js';

const sleeps = [];
const settle = (promise) => run(promise, (ms) => sleeps.push(ms));

test('promises settle as those of the language', async () => {
  const scenarios = [
    (P) => P.resolve(1).then((n) => n + 1),
    (P) => P.reject('no').catch((reason) => `${reason}!`),
    (P) => P.resolve(1).finally(() => 2),
    (P) => P.reject('no').finally(() => P.resolve(2)),
    (P) => P.all([1, P.resolve(2), { then: (ok) => ok(3) }]),
    (P) => P.all([1, P.reject('no')]),
    (P) => P.all([]),
    (P) => P.allSettled([1, P.reject('no')]),
    (P) => P.race([new P(() => {}), P.resolve(2), P.reject('no')]),
    (P) => P.any([P.reject('no'), P.resolve([2])]),
    (P) => P.any([P.reject('no')]).catch((error) => [error.constructor.name, error.errors]),
    (P) => new P((resolve, reject) => (resolve(1), reject('no'), resolve(2))),
    (P) => new P(() => { throw 'thrown'; }),
    (P) => P.resolve(1).then(() => { throw 'thrown'; }),
    (P) => P.resolve(1).then(2).then((n) => n),
  ];
  for (const scenario of scenarios) {
    const [theirs] = await Promise.allSettled([scenario(Promise)]);
    let ours;
    try {
      ours = { status: 'fulfilled', value: settle(scenario(Own)) };
    } catch (reason) {
      ours = { status: 'rejected', reason };
    }
    assert.deepEqual(ours, theirs, String(scenario));
  }
});

test('callbacks run in the order of the language', async () => {
  const order = (P, queue) => {
    const seen = [];
    const one = P.resolve().then(() => seen.push('a')).then(() => seen.push('b'));
    queue(() => seen.push('c'));
    const two = P.resolve(P.resolve()).then(() => seen.push('d')).then(() => seen.push('e'));
    return P.all([one, two, new P((resolve) => resolve(P.resolve())).then(() => seen.push('f'))]).then(() => seen);
  };
  assert.deepEqual(settle(order(Own, queueMicrotask)), await order(Promise, globalThis.queueMicrotask));
});

test('a promise that waits for itself is rejected, and one that nothing settles is an error', () => {
  const { promise, resolve } = Own.withResolvers();
  resolve(promise);
  assert.throws(() => settle(promise), TypeError);
  assert.throws(() => settle(new Own(() => {})), /never happens/);
});

test('timers run in the order of their times, and sleep in between', () => {
  sleeps.length = 0;
  const seen = [];
  const done = new Own((resolve) => {
    setTimeout(() => resolve(seen), 30);
    setTimeout((name) => seen.push(name), 10, 'first');
    clearTimeout(setTimeout(() => seen.push('never'), 5));
    setTimeout(() => seen.push('second'), 10);
  });
  assert.deepEqual(settle(done), ['first', 'second']);
  assert.deepEqual(sleeps, [10, 20]);
});

test('text is encoded and decoded as the standard says', () => {
  const own = { encode: (it) => new text.TextEncoder().encode(it), decode: (it) => new text.TextDecoder().decode(it) };
  for (const it of ['', 'a', 'äö€😀\n\0', '\u{10ffff}', 'lone \ud83d half', '100%']) {
    const expected = new TextEncoder().encode(it);
    assert.deepEqual(own.encode(it), expected);
    assert.equal(own.decode(expected), new TextDecoder().decode(expected));
  }
  for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xef, 0xbb, 0xbf, 0x61]]) {
    const given = Uint8Array.from(bytes);
    assert.equal(own.decode(given), new TextDecoder().decode(given), bytes.join());
  }
  assert.equal(own.decode(Uint8Array.from([1, 97, 98]).subarray(1)), 'ab');
  assert.equal(own.decode(Uint8Array.from([97, 98]).buffer), 'ab');
});

test('random numbers differ with their seed, and are spread', () => {
  const some = (from) => {
    seed(from);
    return Array.from({ length: 1000 }, random);
  };
  const [one, other] = [some('a'), some('b')];
  assert.notDeepEqual(one, other);
  assert.deepEqual(one, some('a'));
  assert.ok(one.every((n) => n >= 0 && n < 1));
  const mean = one.reduce((sum, n) => sum + n, 0) / one.length;
  assert.ok(Math.abs(mean - 0.5) < 0.05, `${mean}`);
});
