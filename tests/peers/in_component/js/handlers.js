// Handlers that work in Node, and not all of them in a component.

import { readFileSync } from 'node:fs';

import { handler } from 'host-jobs';

let calls = 0;

export const reads = handler('reads', {}, () => readFileSync('rows.csv', 'utf8'));

export const finds = handler('finds', {}, () => process.cwd() !== '/');

export const remembers = handler('remembers', {}, () => ++calls);

export const posts = handler('posts', {}, async (ctx, { to }) => {
  const answer = await ctx.fetch(to, { method: 'POST', json: { a: 1 } });
  return answer.status;
});
