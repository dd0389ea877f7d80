// A server that is busy says when to come again; a time in the past is now.

import { handler, Retry } from 'host-jobs';

handler('again', {}, (ctx, { retryAt, now }) => {
  const wait = Date.parse(retryAt) - Date.parse(now);
  if (wait <= 0 && ctx.job.attempt > 1) return 'done';
  throw new Retry('the server is busy', { afterMs: wait });
});
