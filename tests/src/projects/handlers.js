// What each language is measured and stopped with.

import { handler } from 'host-jobs';

handler('count', {}, (ctx, { text }) => {
  const lines = text.split('\n');
  return { lines: lines.length, words: lines.flatMap((line) => line.split(/\s+/).filter(Boolean)).length };
});

handler('spin', {}, (ctx) => {
  ctx.info('spinning');
  for (;;);
});
