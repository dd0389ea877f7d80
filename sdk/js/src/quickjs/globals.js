// Makes global what QuickJS lacks, before any other module of the handler is evaluated.

import { console } from './console.js';
import { Promise, runAsync } from './promise.js';
import * as queue from './queue.js';
import { random } from './random.js';
import { TextDecoder, TextEncoder } from './text.js';

const { clearTimeout, queueMicrotask, setImmediate, setInterval, setTimeout } = queue;

Object.assign(globalThis, {
  clearImmediate: clearTimeout,
  clearInterval: clearTimeout,
  clearTimeout,
  console,
  global: globalThis,
  navigator: { userAgent: 'host', language: 'en', languages: ['en'] },
  Promise,
  runAsync,
  queueMicrotask,
  self: globalThis,
  setImmediate,
  setInterval,
  setTimeout,
  TextDecoder,
  TextEncoder,
});
Math.random = random;

// The engine's own returns a promise of the engine.
Array.fromAsync = async function fromAsync(values, map, self) {
  const made = [];
  const iterable = values[Symbol.asyncIterator] || values[Symbol.iterator] ? values : Array.from(values);
  for await (const value of iterable) made.push(map ? await map.call(self, value, made.length) : value);
  return made;
};
