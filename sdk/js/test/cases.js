// The handlers of the cases in `sdk/cases.json`.

import { Cancelled, handler, JobError, Retry } from 'host-jobs';

const total = { type: 'object', properties: { total: { type: 'integer' } }, required: ['total'] };
const numbers = {
  type: 'object',
  properties: { numbers: { type: 'array', items: { type: 'integer' }, description: 'What to add.' } },
  required: ['numbers'],
};

handler('case.sum', { description: 'Adds numbers.', params: numbers, result: total }, (ctx, params) => ({
  total: params.numbers.reduce((one, other) => one + other, 0),
}));

handler('case.about', {}, (ctx) => ({
  attempt: ctx.job.attempt,
  team: ctx.attribute('team'),
  other: ctx.attribute('other') ?? null,
}));

handler('case.fail', {}, (ctx, { category, retryable }) => {
  throw new JobError('no luck', {
    kind: 'NoLuck',
    category,
    code: 'E1',
    details: { a: 1 },
    retryable: retryable ?? undefined,
  });
});

handler('case.throw', {}, async () => deep());

async function deep() {
  await Promise.resolve();
  throw new RangeError('not caught here');
}

handler('case.again', {}, () => {
  throw new Retry('not yet', { afterMs: 5000 });
});

handler('case.stop', {}, (ctx) => {
  while (ctx.cancelled() === undefined) ctx.sleep(10);
  throw new Cancelled({ done: 1 });
});

handler('case.progress', {}, (ctx) => {
  for (const rows of [1, 4]) ctx.progress(rows * 10, `${rows} of 10 rows`);
  while (ctx.cancelled() === undefined) ctx.sleep(10);
  throw new Cancelled({ rows: 4 });
});

handler('case.log', {}, (ctx) => {
  ctx.info('counted', { words: 3, of: 'a file', ratio: 0.5, ok: true, parts: [1, null] });
  ctx.warn('äö€😀');
});

handler('case.keep', {}, (ctx, { fails }) => {
  const count = (ctx.state.get('n') ?? 0) + 1;
  ctx.state.set('n', count);
  ctx.state.set('n2', { ä: [null, 0.5] });
  if (fails) {
    ctx.state.now.set('at once', true);
    throw new Error('asked to fail');
  }
  return [count, ctx.state.list('n')];
});

handler('case.compare', {}, (ctx) =>
  [
    [undefined, 1],
    [7, 3],
    [1, 2],
  ].map(([expected, value]) => ctx.state.compareAndSet('c', expected, value)),
);

handler('case.order', {}, (ctx, { fails }) => {
  const ids = ctx.enqueueAll([7, 8].map((row) => ({ handler: 'case.log', params: { row }, queue: 'rows' })));
  if (fails) throw new Error('asked to fail');
  return new Set(ids).size;
});

handler('case.report', {}, (ctx, { fails }) => {
  const rows = [
    ['a', 1],
    ['b', 2],
  ];
  const file = ctx.artifacts.create('rows.csv', { contentType: 'text/csv' });
  for (const [name, count] of rows) file.write(`${name},${count}\n`);
  file.close();
  ctx.artifacts.create('open').write(new Uint8Array([120]));
  if (fails) throw new Error('asked to fail');
  return rows.length;
});

handler('case.read', {}, (ctx, { file }) => ctx.artifacts.open(file).text().trimEnd().split('\n'));

handler('case.sign', {}, (ctx, { secret }) => ctx.secret(secret).length);

handler('case.hold', {}, (ctx, { limit }) => {
  ctx.hold(limit, 1500);
  throw new Retry('too many requests', { afterMs: 5000 });
});

handler('case.large', {}, async (ctx, { what, bytes }) => {
  const text = 'x'.repeat(bytes);
  const url = 'http://127.0.0.1:1/';
  switch (what) {
    case 'body': await ctx.fetch(url, { method: 'POST', body: text }); break;
    case 'header': await ctx.fetch(url, { headers: { x: text } }); break;
    case 'url': await ctx.fetch(text); break;
    case 'value': ctx.state.setBytes('k', new TextEncoder().encode(text)); break;
    case 'key': ctx.state.get(text); break;
    case 'params': ctx.enqueue({ handler: 'case.log', params: text }); break;
    case 'statement': ctx.sql('shop').query(text); break;
    case 'line':
      ctx.progress(1, text);
      ctx.info(text, { [text]: text });
      break;
    default: throw new Error(text);
  }
  return 'the attempt continues';
});

handler('case.follow', {}, async (ctx, { url }) => {
  const headers = { Authorization: 'mine', 'X-Key': 'mine', Accept: 'text/plain' };
  return (await ctx.fetch(url, { method: 'POST', json: { a: 1 }, headers, redirect: 'follow' })).status;
});

handler('case.call', {}, async (ctx, { url }) => {
  const response = await ctx.fetch(url, { method: 'POST', json: { a: 1 } });
  return { status: response.throwForStatus().status, body: await response.json() };
});
