// What QuickJS lacks, compared with what Node has.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Promise as Own } from '../src/quickjs/promise.js';
import { runAsync, takeUnhandled } from '../src/quickjs/promise.js';
import { clearTimeout, clock, queueMicrotask, run, setInterval, setTimeout } from '../src/quickjs/queue.js';
import { random, seed } from '../src/quickjs/random.js';
import * as text from '../src/quickjs/text.js';

// Node 20 lacks what QuickJS has.
Uint8Array.fromBase64 ??= (base64) => new Uint8Array(Buffer.from(base64, 'base64'));
Uint8Array.prototype.toBase64 ??= function toBase64() {
  return Buffer.from(this.buffer, this.byteOffset, this.length).toString('base64');
};

const sleeps = [];
let time = 0;
clock.now = () => time;
const sleep = (ms) => {
  sleeps.push(ms);
  time += ms;
};
const settle = (promise) => run(promise, { now: clock.now, sleep, idle: () => new Error('never happens') });

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
    (P) => P.resolve(1).finally('no function'),
    (P) => P.try((n) => n + 1, 1),
    (P) => P.try(() => { throw 'thrown'; }),
    (P) => P.resolve({ get then() { throw 'no then'; } }),
    (P) => P.resolve({ then(ok, no) { no('once'); ok(2); } }),
    (P) => P.race([]).constructor === P && P.resolve('a subclass').then((it) => class extends P {}.resolve(it)),
  ];
  for (const scenario of scenarios) {
    Promise.try ??= async (callback, ...given) => callback(...given);
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

test('an interval repeats until it is cleared, and 10,000 timers are soon done', () => {
  let ticks = 0;
  const done = new Own((resolve) => {
    const id = setInterval(() => {
      ticks += 1;
      if (ticks === 3) resolve(clearTimeout(id));
    }, 10);
  });
  const before = time;
  settle(done);
  assert.deepEqual([ticks, time - before], [3, 30]);
  let left = 10_000;
  settle(new Own((resolve) => {
    for (let n = 0; n < 10_000; n += 1) setTimeout(() => --left || resolve(), (n * 7919) % 100);
  }));
  assert.equal(left, 0);
});

test('an async function continues in the order of the language, and its errors reject it', async () => {
  const make = (P, runAsyncOf) => {
    const order = [];
    const wait = (name) =>
      runAsyncOf(undefined, [name], function* (given) {
        order.push(`${given} 1`);
        order.push(`${given} ${yield P.resolve(2)}`);
        order.push(`${given} ${yield 3}`);
        try {
          yield P.reject('caught');
        } catch (reason) {
          order.push(`${given} ${reason}`);
        }
        return order;
      });
    return P.all([wait('a'), P.resolve().then(() => order.push('b')).then(() => order.push('c')), wait('d')]);
  };
  const theirs = (self, given, generator) => {
    const steps = generator.apply(self, given);
    const step = async (method, value) => {
      const { done, value: yielded } = steps[method](value);
      if (done) return yielded;
      let awaited;
      try {
        awaited = await yielded;
      } catch (thrown) {
        return step('throw', thrown);
      }
      return step('next', awaited);
    };
    return step('next');
  };
  assert.deepEqual(settle(make(Own, runAsync))[0], (await make(Promise, theirs))[0]);
  assert.throws(() => settle(runAsync(undefined, [], function* () { throw new TypeError('no'); })), TypeError);
});

test('rejections that nothing handles are known', () => {
  takeUnhandled();
  Own.reject('lost');
  Own.reject('caught').catch(() => {});
  settle(Own.resolve().then(() => {}));
  assert.deepEqual(takeUnhandled(), ['lost']);
});

const bytesOf = (...given) => Uint8Array.from(given);

test('text is encoded as the standard says', () => {
  const long = 'äö€😀'.repeat(50_000);
  for (const it of ['', 'a', 'äö€😀\n\0', '\u{10ffff}', 'lone \ud83d half', '100%', 'é', long, `a${long}`, 'x'.repeat(200_000)]) {
    const expected = new TextEncoder().encode(it);
    assert.deepEqual(new text.TextEncoder().encode(it), expected);
    assert.equal(new text.TextDecoder().decode(expected), new TextDecoder().decode(expected));
  }
  for (const size of [0, 1, 2, 3, 5, 9, 20]) {
    const [own, theirs] = [new Uint8Array(size), new Uint8Array(size)];
    assert.deepEqual(new text.TextEncoder().encodeInto('aä€😀b', own), new TextEncoder().encodeInto('aä€😀b', theirs));
    assert.deepEqual(own, theirs);
  }
});

test('bytes are decoded as the standard says, whatever they are', () => {
  let state = 7;
  const random = (below) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >>> 8) % below;
  };
  const parts = ['a', 'ä', '€', '😀', '\ufeff'].map((it) => [...new TextEncoder().encode(it)]);
  const odd = [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82], [0xf0, 0x9f, 0x98], [0x80], [0xf0, 0x80]];
  for (let n = 0; n < 3000; n += 1) {
    const pieces = Array.from({ length: random(12) }, () => (random(4) ? parts[random(parts.length)] : odd[random(odd.length)]));
    const bytes = bytesOf(...pieces.flat());
    for (const label of ['utf-8', 'utf-16le', 'utf-16be']) {
      for (const options of [{}, { fatal: true }, { ignoreBOM: true }]) {
        const ended = (Decoder, cut) => {
          try {
            const decoder = new Decoder(label, options);
            if (cut === undefined) return decoder.decode(bytes);
            const first = decoder.decode(bytes.subarray(0, cut), { stream: true });
            return first + decoder.decode(bytes.subarray(cut));
          } catch (thrown) {
            return thrown.name;
          }
        };
        const cut = random(bytes.length + 1);
        const shown = `${label} ${JSON.stringify(options)} ${bytes} at ${cut}`;
        assert.equal(ended(text.TextDecoder), ended(TextDecoder), shown);
        assert.equal(ended(text.TextDecoder, cut), ended(TextDecoder, cut), shown);
      }
    }
  }
  assert.equal(new text.TextDecoder().decode(bytesOf(1, 97, 98).subarray(1)), 'ab');
  assert.equal(new text.TextDecoder().decode(bytesOf(97, 98).buffer), 'ab');
  assert.equal(new text.TextDecoder('latin1').decode(bytesOf(0xef, 0x80, 0x9f, 0xff)), 'ï€Ÿÿ');
  assert.throws(() => new text.TextDecoder('koi8-r'), RangeError);
});

test('random numbers differ with their seed, and are spread', () => {
  const some = (from) => {
    seed(from);
    return Array.from({ length: 1000 }, random);
  };
  const [one, other] = [some([1, 2, 3, 4]), some([1, 2, 3, 5])];
  assert.notDeepEqual(one, other);
  assert.deepEqual(one, some([1, 2, 3, 4]));
  assert.ok(one.every((n) => n >= 0 && n < 1));
  const mean = one.reduce((sum, n) => sum + n, 0) / one.length;
  assert.ok(Math.abs(mean - 0.5) < 0.05, `${mean}`);
});
