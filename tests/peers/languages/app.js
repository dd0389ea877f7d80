// The example, and handlers that fail.

import { JobError, jobs, Retry } from '../../../examples/javascript/host-jobs.js';
import { handler as example } from '../../../examples/javascript/word-count.js';

const failing = jobs({
  'js-throws': { run: (params) => null.field },
  'js-fails': {
    run() {
      throw new JobError('no luck', { kind: 'NoLuck', code: 'E1', details: { a: 1 }, retryable: false });
    },
  },
  'js-retries': {
    run(_params, ctx) {
      if (ctx.attempt < 3) throw new Retry('not yet', 1);
      return ctx.attempt;
    },
  },
  'js-rejects': {
    async run() {
      await Promise.resolve();
      throw new JobError('no luck later', { kind: 'NoLuck' });
    },
  },
  'js-fetches': {
    async run({ urls, body }) {
      const options = body === undefined ? {} : { method: 'POST', body, headers: { 'x-from': 'js' } };
      const responses = await Promise.all(urls.map((url) => fetch(url, options)));
      return Promise.all(responses.map(async (response) => [response.status, await response.text()]));
    },
  },
  'js-uncaught': {},
});

export const handler = {
  describe: () => [...example.describe(), ...failing.describe()],
  handle(ctx, params) {
    if (ctx.function === 'js-uncaught') throw new RangeError('nobody catches this');
    return (ctx.function === 'js-word-count' ? example : failing).handle(ctx, params);
  },
};
