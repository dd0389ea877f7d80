// What is new since the last run, by values that the job keeps.

import { handler } from 'host-jobs';

handler('seen', {}, (ctx, { ids }) => {
  const known = new Set(ctx.state.get('ids') ?? []);
  const fresh = ids.filter((id) => !known.has(id));
  ctx.state.set('ids', [...known, ...fresh]);
  ctx.info('checked', { known: known.size, fresh: fresh.length });
  return fresh;
});
