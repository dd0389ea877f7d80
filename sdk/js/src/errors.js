// How a handler ends without a result: what it throws, and what becomes of it.

/** Who must act on an error, as the API shows it. */
const CATEGORY_NAMES = ['USER_CODE', 'DATA_QUALITY', 'INFRASTRUCTURE', 'CONFIGURATION', 'TIMEOUT', 'CANCELLED'];

/** Returns the name of a category, however it is spelled. */
function categoryName(spelled) {
  const name = String(spelled).toUpperCase().replaceAll('-', '_');
  if (CATEGORY_NAMES.includes(name)) return name;
  throw new TypeError(`category: expected one of ${CATEGORY_NAMES.join(', ')}, got ${spelled}`);
}

/** The attempt failed. `retryable` says whether another attempt may help; without it the category decides. */
export class JobError extends Error {
  constructor(message, { kind = 'error', category = 'USER_CODE', code, details, retryable, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'JobError';
    Object.assign(this, { kind, category: categoryName(category), code, details, retryable });
  }
}

/** The handler asks for another attempt after the job's backoff, and not before `afterMs` milliseconds. */
export class Retry extends Error {
  constructor(reason, { afterMs } = {}) {
    super(reason);
    this.name = 'Retry';
    this.afterMs = afterMs;
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

/** The host does not do what the handler asks of its store. */
export class StoreError extends JobError {
  constructor(refused) {
    const { message, options } = refusal('store', refused);
    super(message, options);
    this.name = 'StoreError';
  }
}

/** Returns what `thrown` tells the host. `located` makes the author's positions of those in a stack. */
export function failure(thrown, located = (stack) => stack) {
  if (thrown instanceof Retry) {
    return { tag: 'retry', val: { reason: thrown.message, afterMs: thrown.afterMs } };
  }
  if (thrown instanceof Cancelled) return { tag: 'cancelled', val: optional(thrown.partial) };
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const own = error instanceof JobError ? error : { kind: error.name, category: 'USER_CODE' };
  const { kind, category, code, details, retryable } = own;
  const asInterface = category.toLowerCase().replaceAll('_', '-');
  const frames = located(frame(error));
  const stack = frames && `${error.name}: ${error.message}\n${frames}`;
  return {
    tag: 'error',
    val: { category: asInterface, kind, message: error.message, code, details: optional(details), stack, retryable },
  };
}

/** Returns the lines of a stack that are frames: some engines begin with the message. */
const frame = (error) =>
  String(error.stack ?? '')
    .split('\n')
    .filter((line) => /:\d+(:\d+)?\)?$/.test(line))
    .join('\n');

const optional = (value) => (value === undefined ? undefined : JSON.stringify(value));
