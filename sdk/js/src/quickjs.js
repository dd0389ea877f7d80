// The exports of a component in QuickJS. Its functions must return without waiting, so promises are ours, and are run until the
// handler has ended.

import { getRandomBytes } from 'wasi:random/random@0.2.6';

import './quickjs/globals.js';
import { takeUnhandled } from './quickjs/promise.js';
import { clock, run } from './quickjs/queue.js';
import { seed } from './quickjs/random.js';

import { attempt, describe, failed, host, warn, waitsForever } from './component.js';
import { write } from './quickjs/console.js';

write.to = host.log;
// The engine's own counts from when the component was built.
const begun = { at: 0 };
clock.now = () => Date.now() - begun.at;
globalThis.performance = { now: clock.now, timeOrigin: 0, mark() {}, measure() {} };

export const handler = {
  describe,
  handle(job, params) {
    seed(new Uint32Array(getRandomBytes(16).slice().buffer));
    begun.at = Date.now();
    // Those of the imports belong to no attempt.
    takeUnhandled();
    const sleep = (ms) => host.control.sleepMs(ms);
    try {
      return run(attempt(job, params), { now: clock.now, sleep, idle: () => waitsForever(job) });
    } catch (thrown) {
      throw failed(thrown);
    } finally {
      takeUnhandled().forEach(warn);
    }
  },
};
