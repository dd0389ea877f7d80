// Uses all that the package offers to handlers and their tests, as its types say.

import { Cancelled, HttpError, JobError, MockHost, Response, Retry, StoreError, handler } from 'host-jobs';
import type { Category, Context, Ctx, LogLevel, NewJob, State, Typed } from 'host-jobs';

const about = {
  description: 'Does a little of everything.',
  params: {
    type: 'object',
    properties: { rows: { type: 'integer' }, note: { type: 'string' } },
    required: ['rows'],
  },
  result: { type: 'array', items: { type: 'string' } },
} as const;

const all = handler('all', about, async (ctx, params) => {
  const rows: number = params.rows;
  const note: string | undefined = params.note;
  // @ts-expect-error The schema has no such field.
  params.other;
  return [await uses(ctx, rows), note ?? ''];
});

// @ts-expect-error The result is no array of texts.
handler('wrong', about, () => 7);

async function uses(ctx: Ctx, rows: number): Promise<string> {
  const job: Context = ctx.job;
  const attempt: number = job.attempt;
  const customer: string | undefined = ctx.attribute('customer');
  const reason: string | undefined = ctx.cancelled();
  ctx.checkCancelled({ rows });
  const left: number | undefined = ctx.remainingMs();
  ctx.progress(50, 'half of it');
  ctx.progress(undefined, rows);
  ctx.sleep(5);
  const level: LogLevel = 'warn';
  ctx.log(level, 'a line', { rows });
  ctx.debug('a line');
  ctx.info('a line', { rows });
  ctx.warn('a line');
  ctx.error('a line');
  try {
    // @ts-expect-error There is no such level.
    ctx.log('loud', 'a line');
  } catch {}
  const response: Response = await ctx.fetch('https://a.example/', { method: 'POST', json: { rows }, timeoutMs: 5 });
  const { ok, status }: { ok: boolean; status: number } = response.throwForStatus();
  const bytes: number = (await response.bytes()).length + response.content.length + (await response.arrayBuffer()).byteLength;
  const kind: string | null = response.headers.get('content-type');
  const order: NewJob = {
    handler: 'order', queue: 'orders', priority: 3, uniqueKey: 'o', delaySeconds: 1, inputs: { a: '#0' },
    dependsOn: ['#0', { job: '#1', when: 'ended' }], attributes: { rows: String(rows) },
  };
  // @ts-expect-error A job needs its handler.
  ctx.enqueue({ queue: 'orders' });
  const ids: string[] = [ctx.enqueue(order), ...ctx.enqueueAll([order]), ctx.enqueueNow(order), ...ctx.enqueueAllNow([order])];
  keeps(ctx.state.now);
  keeps(ctx.state);
  keeps(ctx.state.shared('both'));
  const secret: string = ctx.secret('signing');
  return [attempt, customer, reason, left, ok, status, bytes, kind, await response.text(), ids.length, secret].join(' ');
}

function keeps(state: State): void {
  state.set('cursor', { at: 7 });
  const cursor: { at: number } | undefined = state.get<{ at: number }>('cursor');
  const changed: boolean = state.compareAndSet('cursor', cursor, undefined);
  state.setBytes('raw', new Uint8Array([1]));
  const raw: Uint8Array | undefined = state.getBytes('raw');
  const keys: string[] = state.list('r');
  state.delete('raw');
  if (!changed || raw?.length !== 1 || keys.join() !== 'raw') throw new Error('the state is another');
}

const category: Category = 'DATA_QUALITY';
const errors: Error[] = [
  new JobError('no', { kind: 'none', category, code: '7', details: {}, retryable: false, cause: 1 }),
  new HttpError({ kind: 'timed-out', message: 'late' }),
  new StoreError({ kind: 'not-granted', message: 'no' }),
  new Retry('later', { afterMs: 10 }),
  new Cancelled({ rows: 1 }),
];
try {
  // @ts-expect-error There is no such category.
  new JobError('no', { category: 'none' });
  throw new Error('a category that does not exist is accepted');
} catch (error) {
  if (!(error instanceof TypeError)) throw error;
}

const host = new MockHost({
  attempt: 2,
  attributes: { customer: 'c' },
  answer: ({ body, url }) => new Response(body, { status: url ? 201 : 500, headers: { 'content-type': 'text/plain' } }),
  state: { before: 1 },
  secrets: { signing: 'k' },
});
const params: Typed<typeof about.params> = { rows: 2, note: 'n' };
const [text, note]: string[] = await host.run(all, params);
// @ts-expect-error Rows are a number.
await host.run(all, { rows: '2' }).catch(() => undefined);
const called: unknown = await host.call('all', { rows: 2 });
host.cancel('enough', { afterChecks: 1 });
const percents: (number | undefined)[] = host.progress.map(({ percent }) => percent);
const levels: LogLevel[] = host.logs.map(({ level }) => level);
const counts: number[] = [host.requests.length, host.enqueued.length, host.enqueuedNow.length, host.sleptMs];
const seen = [host.job.attempt, host.ctx.job.attempt, host.state<number>('before'), percents.length, levels.length, ...counts];
if (text?.startsWith('2 c ') && note === 'n' && Array.isArray(called) && errors.length === 5 && seen.every((it) => it)) {
  console.log('it works');
}
