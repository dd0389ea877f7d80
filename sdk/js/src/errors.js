// How a handler ends without a result: what it throws, and what becomes of it.

import { cut, detailsOf, millis, shown } from './values.js';

/** The longest stack, and the most errors in one that an error has as causes or parts. */
const STACK_MAX = 16_384;
const CAUSES_MAX = 8;

/** Who must act on an error, as the API shows it. */
const CATEGORY_NAMES = ['USER_CODE', 'DATA_QUALITY', 'INFRASTRUCTURE', 'CONFIGURATION', 'TIMEOUT', 'CANCELLED'];

/** Returns the name of a category, however it is spelled. */
function categoryName(spelled) {
  const name = shown(spelled).toUpperCase().replaceAll('-', '_');
  if (CATEGORY_NAMES.includes(name)) return name;
  throw new TypeError(`category: expected one of ${CATEGORY_NAMES.join(', ')}, got ${shown(spelled)}`);
}

/** The attempt failed. `retryable` says whether another attempt may help; without it the category decides. */
export class JobError extends Error {
  constructor(message, options) {
    const { kind, category, code, details, retryable, cause } = options ?? {};
    super(shown(message), cause === undefined ? undefined : { cause });
    this.name = 'JobError';
    this.kind = shown(kind ?? 'error');
    this.category = categoryName(category ?? 'USER_CODE');
    this.code = code === undefined || code === null ? undefined : shown(code);
    this.details = details;
    this.retryable = retryable === undefined || retryable === null ? undefined : Boolean(retryable);
  }
}

/** The handler asks for another attempt after the job's backoff, and not before `afterMs` milliseconds. */
export class Retry extends Error {
  constructor(reason, options) {
    const { afterMs } = options ?? {};
    super(shown(reason));
    this.name = 'Retry';
    this.afterMs = afterMs === undefined || afterMs === null ? undefined : millis(afterMs, 'afterMs');
  }
}

/** The handler stopped on request, with its partial results. */
export class Cancelled extends Error {
  constructor(partial) {
    super('the job was asked to stop');
    this.name = 'Cancelled';
    this.partial = partial;
  }
}

const CATEGORIES = {
  refused: 'USER_CODE',
  'not-granted': 'CONFIGURATION',
  'invalid-request': 'USER_CODE',
  unreachable: 'INFRASTRUCTURE',
  'timed-out': 'INFRASTRUCTURE',
  'too-large': 'CONFIGURATION',
  'limit-reached': 'CONFIGURATION',
  unavailable: 'INFRASTRUCTURE',
};

const refusal = (what, { kind, message }) => ({
  message,
  options: { kind: `${what}_${kind.replaceAll('-', '_')}`, category: CATEGORIES[kind] },
});

/** There is no response. */
export class HttpError extends JobError {
  constructor(refused) {
    const { message, options } = refusal('http', refused);
    super(message, options);
    this.name = 'HttpError';
  }
}

/** A statement returned nothing. `code` is the SQLSTATE, if the database answered. */
export class SqlError extends JobError {
  constructor(refused) {
    const { message, options } = refusal('sql', refused);
    super(message, { ...options, code: refused.code ?? undefined });
    this.name = 'SqlError';
  }
}

/** The host does not do what the handler asks of its store. */
export class StoreError extends JobError {
  constructor(refused) {
    const { message, options } = refusal('store', refused);
    super(message, options);
    this.name = 'StoreError';
  }
}

/** Returns what `thrown` tells the host, whatever it is. `located` makes the author's positions of those in a stack. */
export function failure(thrown, located = (stack) => stack) {
  try {
    return described(thrown, located);
  } catch {
    return { tag: 'error', val: { category: 'user-code', kind: 'Error', message: cut(shown(thrown)) } };
  }
}

function described(thrown, located) {
  if (thrown instanceof Retry) {
    const { afterMs } = thrown;
    const wait = afterMs === undefined ? undefined : millis(afterMs, 'afterMs');
    return { tag: 'retry', val: { reason: cut(shown(thrown.message)), afterMs: wait } };
  }
  if (thrown instanceof Cancelled) return { tag: 'cancelled', val: detailsOf(thrown.partial) };
  const { name, message } = named(thrown);
  const { kind, category, code, details, retryable } = thrown instanceof JobError ? thrown : { kind: name };
  return {
    tag: 'error',
    val: {
      category: categoryName(category ?? 'USER_CODE').toLowerCase().replaceAll('_', '-'),
      kind: cut(shown(kind ?? name), 256),
      message: cut(message),
      code: code === undefined || code === null ? undefined : cut(shown(code), 256),
      details: detailsOf(details),
      stack: stackOf(thrown, located),
      retryable: retryable === undefined || retryable === null ? undefined : Boolean(retryable),
    },
  };
}

/** Returns the name and the message of what was thrown. */
function named(thrown) {
  if (thrown instanceof Error) return { name: shown(thrown.name), message: shown(thrown.message) };
  const { name, message } = Object(thrown);
  if (typeof message === 'string') return { name: typeof name === 'string' ? name : 'Error', message: shown(message) };
  return { name: 'Error', message: shown(thrown) };
}

/** Returns an error with its frames, and those of its causes and parts below. */
function stackOf(thrown, located) {
  const lines = [];
  const above = [];
  const add = (error, lead) => {
    if (above.length === CAUSES_MAX || above.includes(error)) return;
    above.push(error);
    const { name, message } = named(error);
    const frames = located(framesOf(error));
    lines.push(`${lead}${name}: ${cut(message, 1024)}`, ...(frames ? [frames] : []));
    if (!(error instanceof Error)) return;
    if (error.cause !== undefined && error.cause !== null) add(error.cause, 'Caused by: ');
    if (Array.isArray(error.errors)) error.errors.forEach((one, at) => add(one, `Error ${at + 1} of ${error.errors.length}: `));
  };
  add(thrown, '');
  return lines.length === 1 ? undefined : cut(lines.join('\n'), STACK_MAX);
}

/** Returns the lines of a stack that are frames: some engines begin with the message. */
const framesOf = (error) =>
  shown(Object(error).stack ?? '')
    .split('\n')
    .filter((line) => /:\d+(:\d+)?\)?$/.test(line))
    .join('\n');
