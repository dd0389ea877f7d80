// Handlers of `host` in JavaScript: `export const handler = jobs({ NAME: { run(params, ctx) { … } } })`.
//
// What a handler returns is the result. What it throws ends the attempt: an `Error` as failed, with its
// message and stack; `JobError`, `Retry` and `Cancelled` say more. A handler may be `async`.

import { cancelled, progress as report, remainingMs, sleepMs } from 'host:jobs/control@1.1.0';
import { write } from 'host:jobs/log@1.1.0';

/** The attempt failed. `retryable` tells whether another attempt may help; without it, the category decides. */
export class JobError extends Error {
  constructor(message, { kind = 'JobError', category = 'user-code', code, details, retryable } = {}) {
    super(message);
    Object.assign(this, { name: kind, category, code, details, retryable });
  }
}

/** The handler asks for another attempt, `afterMs` milliseconds from now. */
export class Retry extends Error {
  constructor(reason, afterMs) {
    super(reason);
    this.afterMs = afterMs;
  }
}

/** The handler stopped on request, with its partial results. */
export class Cancelled extends Error {
  constructor(partial) {
    super('cancelled');
    this.partial = partial;
  }
}

const log = (level, message, fields) =>
  write(level, message, Object.entries(fields).map(([key, value]) => [key, String(value)]));

/** Writes a line to the log of the job. */
export function info(message, fields = {}) {
  log('info', message, fields);
}

/** Writes a warning to the log of the job. */
export function warn(message, fields = {}) {
  log('warn', message, fields);
}

/** Reports progress: 0 to 100 percent, or `undefined` if that is not known, and what the job is doing. */
export function progress(percent, message) {
  report(percent ?? undefined, String(message));
}

/** Sleeps this many milliseconds without using CPU. */
export function sleep(ms) {
  sleepMs(ms);
}

/** Returns how many milliseconds of the time limit are left, `undefined` if there is no limit. */
export function remaining() {
  return remainingMs();
}

/** Ends the attempt if the job was asked to stop. */
export function checkCancelled(partial) {
  if (cancelled() !== undefined) throw new Cancelled(partial);
}

const json = (value) => (value === undefined ? undefined : JSON.stringify(value));

function failure(thrown) {
  if (thrown instanceof Retry) {
    return { tag: 'retry', val: { reason: thrown.message, afterMs: thrown.afterMs } };
  }
  if (thrown instanceof Cancelled) return { tag: 'cancelled', val: json(thrown.partial) };
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const { name, message, stack, category = 'user-code', code, details, retryable } = error;
  const val = { category, kind: name, message, code, details: json(details), stack, retryable };
  return { tag: 'error', val };
}

/** Makes a component's exports from handlers by name: `{ description, paramsSchema, resultSchema, run }`. */
export function jobs(handlers) {
  return {
    describe() {
      return Object.entries(handlers).map(([name, { description, paramsSchema, resultSchema }]) => ({
        name,
        description,
        paramsSchema: json(paramsSchema),
        resultSchema: json(resultSchema),
      }));
    },
    async handle(ctx, params) {
      if (!Object.hasOwn(handlers, ctx.function)) {
        const message = `no handler is named ${ctx.function}`;
        throw failure(new JobError(message, { kind: 'handler_not_found', category: 'configuration' }));
      }
      try {
        return json(await handlers[ctx.function].run(JSON.parse(params), ctx));
      } catch (thrown) {
        throw failure(thrown);
      }
    },
  };
}
