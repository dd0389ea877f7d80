// The exports of a component in QuickJS. Its functions must return without waiting, so promises are ours, and are run until the
// handler has ended.

import './quickjs/globals.js';
import { run } from './quickjs/queue.js';
import { seed } from './quickjs/random.js';

import { attempt, describe, failed, host } from './component.js';
import { fetchWith } from './http.js';
import { write } from './quickjs/console.js';

globalThis.fetch = fetchWith(host);
write.to = host.log;

export const handler = {
  describe,
  handle(job, params) {
    seed(`${job.requestId} ${Date.now()}`);
    try {
      return run(attempt(job, params), (ms) => host.control.sleepMs(ms));
    } catch (thrown) {
      throw failed(thrown);
    }
  },
};
