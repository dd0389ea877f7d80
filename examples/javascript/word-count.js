// A component with one handler.

import { info, jobs } from './host-jobs.js';

export const handler = jobs({
  'js-word-count': {
    description: 'Counts the words of a text.',
    paramsSchema: {
      type: 'object',
      properties: { text: { type: 'string' } },
      required: ['text'],
    },
    run({ text }, ctx) {
      const counts = {};
      for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
        counts[word] = (counts[word] ?? 0) + 1;
      }
      info('counted', { words: Object.values(counts).reduce((a, b) => a + b, 0), attempt: ctx.attempt });
      return counts;
    },
  },
});
