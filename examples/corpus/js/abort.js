// Work that is stopped by a signal, by a time limit, or by either.

import { handler } from 'host-jobs';

const stoppable = (signal) =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });

handler('abort', {}, async () => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(new Error('asked to')), 1);
  const reasons = [];
  for (const signal of [controller.signal, AbortSignal.timeout(2), AbortSignal.any([AbortSignal.abort('before'), new AbortController().signal])]) {
    await stoppable(signal).catch((reason) => reasons.push(reason.name ? `${reason.name}: ${reason.message}` : reason));
  }
  return reasons;
});
