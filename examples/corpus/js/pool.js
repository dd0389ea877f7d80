// Work that runs three at a time.

import { handler } from 'host-jobs';

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

handler('pool', {}, async (ctx, { delays }) => {
  const waiting = [...delays.entries()];
  const order = [];
  let running = 0;
  let most = 0;
  const worker = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      running += 1;
      most = Math.max(most, running);
      await wait(next[1]);
      order.push(next[0]);
      running -= 1;
    }
  };
  await Promise.all([worker(), worker(), worker()]);
  return { done: order.sort(), most };
});
