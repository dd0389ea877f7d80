// A tree that is 127 levels deep, in recursive and in async code.

import { handler } from 'host-jobs';

const depth = (value) => (Array.isArray(value) ? 1 + depth(value[0]) : 0);
const depthLater = async (value) => (Array.isArray(value) ? 1 + (await depthLater(value[0])) : 0);
const count = (n) => (n === 0 ? 0 : 1 + count(n - 1));

handler('nested', {}, async (ctx, { levels, calls }) => {
  const value = JSON.parse('['.repeat(levels) + ']'.repeat(levels));
  return [depth(value), await depthLater(value), JSON.stringify(value).length, count(calls)];
});
