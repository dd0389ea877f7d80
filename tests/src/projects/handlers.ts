// What each language is measured and stopped with.

import { handler } from 'host-jobs';

const params = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] } as const;

handler('count', { params }, (ctx, { text }) => {
  const lines = text.split('\n');
  return { lines: lines.length, words: lines.flatMap((line) => line.split(/\s+/).filter(Boolean)).length };
});

handler('spin', {}, (ctx): number => {
  ctx.info('spinning');
  for (;;);
});
