// What the host offers to handlers. Generated from the WIT package host:jobs@1.2.0.

/** Describes the job that a handler executes, and the current attempt. */
export interface Context {
  /** Identifies the job; the same for all attempts. */
  jobId: string;
  /** Identifies this attempt. */
  requestId: string;
  /** The handler's name as given when the job was enqueued. */
  function: string;
  /** The queue the job waited in. */
  queue: string;
  /** The protocol by which the job arrived: `http`, `cli`, `handler`, or the name of a wire. */
  protocol: string;
  /** The number of this attempt, from 1. */
  attempt: number;
  /**
   * The maximum number of attempts that count, if there is a limit. An attempt that the host lost may
   * not count.
   */
  maxAttempts?: number | undefined;
  /** When the job was accepted (RFC 3339). */
  enqueuedAt: string;
  /** After this time no attempt may run (RFC 3339). */
  deadline?: string | undefined;
  /** The worker that executes the attempt. */
  workerId?: string | undefined;
  /** W3C trace context: `traceparent`, `tracestate`. */
  trace: Array<[string, string]>;
  /** Other data that the sender attached: pairs of name and value. */
  attributes: Array<[string, string]>;
}

/** Who must act on an error. */
export type Category =
  /** The author of the handler. */
  | 'user-code'
  /** The sender of the params. */
  | 'data-quality'
  /** The operator of the host. */
  | 'infrastructure'
  /** The person who deployed or configured the handler. */
  | 'configuration'
  /** The handler took too long. */
  | 'timeout'
  /** The job was cancelled on request. */
  | 'cancelled';

/** Why a handler failed. */
export interface JobError {
  /** Who must act. */
  category: Category;
  /** The handler's own name for the error. */
  kind: string;
  /** One sentence for a person. */
  message: string;
  /** The handler's own code. */
  code?: string | undefined;
  /** Additional data. */
  details?: string | undefined;
  /** A stack trace, if the language has one. */
  stack?: string | undefined;
  /** Whether another attempt may help. If absent, the category decides. */
  retryable?: boolean | undefined;
}

/** The handler asks for another attempt. */
export interface RetryRequest {
  /** Why another attempt is needed. */
  reason: string;
  /** How long to wait, in milliseconds. If absent, the job's backoff decides. */
  afterMs?: number | undefined;
}

/** How a handler ends without a result. */
export type Failure =
  /** The handler failed. */
  | { tag: 'error'; val: JobError }
  /** The handler asks for another attempt. */
  | { tag: 'retry'; val: RetryRequest }
  /** The handler stopped on request. Contains its partial results, if any. */
  | { tag: 'cancelled'; val?: string | undefined };

/** Describes one handler of a component. */
export interface HandlerInfo {
  /** The name: 1 to 128 of the characters `A-Z a-z 0-9 _ . : / -`. */
  name: string;
  /** What the handler does, for people. */
  description?: string | undefined;
  /** The JSON Schema of the params. */
  paramsSchema?: string | undefined;
  /** The JSON Schema of the result. */
  resultSchema?: string | undefined;
}

/** Who must act on an error. */
export type JobsErrorKind =
  /** The manifest does not grant it. */
  | 'not-granted'
  /** The request is invalid, or the host refuses it. */
  | 'invalid-request'
  /** A limit is reached. */
  | 'limit-reached'
  /** The host cannot do it now. Another attempt may help. */
  | 'unavailable';

/** Why no job is enqueued. */
export interface JobsError {
  /** Who must act. */
  kind: JobsErrorKind;
  /** One sentence for a person. */
  message: string;
}

/** Enqueues jobs: of the handlers and in the queues that the manifest names. */
export interface Jobs {
  /**
   * Enqueues one job or an array of jobs, all or none, as `POST /api/v1/jobs` takes them. They exist exactly
   * if this attempt completes. Returns their ids, in order. If a job with the same unique key exists then, none
   * is added.
   *
   * Throws JobsError.
   */
  enqueue(jobs: string): Array<string>;
  /**
   * Enqueues them now. They are on disk before it returns, and stay if this attempt does not complete: an
   * attempt that follows may enqueue them again, unless a unique key prevents it. Returns their ids, in order:
   * of the job that has the unique key, if there is one.
   *
   * Throws JobsError.
   */
  enqueueNow(jobs: string): Array<string>;
}

/** Files that a job produces, and those that it reads. What it produces is kept with the job exactly if this attempt completes. */
export interface Artifacts {
  /**
   * Begins a file and returns its number. A name has 1 to 128 of the characters `A-Z a-z 0-9 _ . -` and begins with none of
   * `.` and `-`. Without a content type, it is `application/octet-stream`.
   *
   * Throws JobsError.
   */
  create(name: string, contentType: string | undefined): number;
  /**
   * Appends to a file, at most 1 MiB.
   *
   * Throws JobsError.
   */
  write(artifact: number, content: Uint8Array): void;
  /**
   * Opens a file that the job was enqueued with, by its name among the job's `files`, and returns its number.
   *
   * Throws JobsError.
   */
  open(name: string): number;
  /**
   * Returns what follows in a file that was opened: at most so many bytes and at most 1 MiB, and none at its end.
   *
   * Throws JobsError.
   */
  read(artifact: number, bytesMax: number): Uint8Array;
  /**
   * Ends a file. One that was created is on disk before this returns, and is not kept unless it is closed.
   *
   * Throws JobsError.
   */
  close(artifact: number): void;
}

/** Cancellation, time and progress of a running handler. */
export interface Control {
  /**
   * Returns the reason if the job has been asked to stop. A handler that checks regularly and
   * returns `cancelled` can keep partial results. A handler that does not is stopped by force.
   */
  cancelled(): string | undefined;
  /** Returns how much of the time limit is left, in milliseconds. */
  remainingMs(): number | undefined;
  /**
   * Reports progress: 0 to 100 percent if known, and what the job is doing. The host may skip
   * reports that follow each other quickly.
   */
  progress(percent: number | undefined, message: string): void;
  /** Sleeps without using CPU. */
  sleepMs(ms: number): void;
}

/** A request with its whole body. */
export interface HttpRequest {
  /** `GET`, `POST`, … */
  method: string;
  /** An absolute URL that starts with `https://` or `http://`. */
  url: string;
  /** Pairs of name and value. Headers of the connection, such as `host`, cannot be set. */
  headers: Array<[string, string]>;
  /** Empty if there is none. */
  body: Uint8Array;
  /** A time limit, in milliseconds. The manifest's is the longest. */
  timeoutMs?: number | undefined;
}

/** A response with its whole body. Redirects are not followed. */
export interface HttpResponse {
  /** The status code. */
  status: number;
  /** Pairs of name, in lower case, and value. */
  headers: Array<[string, string]>;
  /** The body as the server sent it. */
  body: Uint8Array;
}

/** Who must act on an error. */
export type HttpErrorKind =
  /** The manifest does not grant the request, or the host does not allow its server. */
  | 'not-granted'
  /** The request is invalid. */
  | 'invalid-request'
  /** The server cannot be reached, or broke off. */
  | 'unreachable'
  /** The server took too long. */
  | 'timed-out'
  /** The response is too large. */
  | 'too-large'
  /** The attempt has made as many requests as it may. */
  | 'limit-reached'
  /** The host cannot send requests now. Another attempt may help. */
  | 'unavailable';

/** Why there is no response. */
export interface HttpError {
  /** Who must act. */
  kind: HttpErrorKind;
  /** One sentence for a person. */
  message: string;
}

/**
 * Requests to HTTP servers. The host sends them for the handler: to the servers that the manifest names, with
 * the headers that the manifest adds. Secrets in those headers are never visible to the handler.
 */
export interface Http {
  /**
   * Sends a request and waits for the response.
   *
   * Throws HttpError.
   */
  send(request: HttpRequest): HttpResponse;
}

/** The limits of the job: how many jobs with its keys run at once or start per period. */
export interface Limits {
  /**
   * Holds the key that the job has of a limit, for example because a server has answered 429: no job of the key
   * starts within this time, in milliseconds, at most 86,400,000 (24 hours). A longer hold stays. It is stored before
   * this returns, whatever becomes of the attempt. If the attempt then asks for a retry, it does not count. The
   * handler's manifest must name the limit.
   *
   * Throws JobsError.
   */
  hold(limit: string, ms: number): void;
}

/** The severity of a line. */
export type LogLevel =
  | 'trace'
  | 'debug'
  | 'info'
  | 'warn'
  | 'error';

/** The job's log. */
export interface Log {
  /** Writes one line. Lines beyond the job's log limit are counted and dropped. */
  write(level: LogLevel, message: string, fields: Array<[string, string]>): void;
  /** Writes one line whose fields keep their types: each value is JSON. A value that is not becomes a string. */
  writeJson(level: LogLevel, message: string, fields: Array<[string, string]>): void;
}

/**
 * Secrets whose values a handler needs itself, for example to sign. Prefer headers of `http`, which carry secrets that
 * no handler sees.
 */
export interface Secrets {
  /**
   * Returns the value of a secret that the manifest lets the handler see. It is recorded in the audit. The host
   * hides the value in the log, the progress, the result and the failure of this attempt.
   *
   * Throws JobsError.
   */
  reveal(name: string): string;
}

/** What a statement returned. */
export interface SqlRows {
  /** The names of the columns. */
  columns: Array<string>;
  /**
   * An array with an array for each row. Booleans, integers, floating-point numbers, JSON and arrays of these are values of
   * JSON; all other types, such as `numeric` and `timestamptz`, are strings as the database writes them.
   */
  rows: string;
  /** How many rows it returned or changed, 4,294,967,295 at most. */
  affected: number;
}

/** What went wrong. */
export type SqlErrorKind =
  /** The database answered with an error; `code` is its SQLSTATE. */
  | 'refused'
  /** The manifest does not grant the database. */
  | 'not-granted'
  /** The statement or its parameters are invalid, or the transaction is over. */
  | 'invalid-request'
  /** The database cannot be reached, or does not let the host sign in. */
  | 'unreachable'
  /** It takes too long to connect. */
  | 'timed-out'
  /** The statement or the rows are too large. */
  | 'too-large'
  /** The attempt has used up what the manifest grants. */
  | 'limit-reached'
  /** The host cannot do it now; another attempt may help. */
  | 'unavailable';

export interface SqlError {
  kind: SqlErrorKind;
  /** The SQLSTATE, if the database answered. */
  code?: string | undefined;
  /** One sentence for a person. */
  message: string;
}

/**
 * Statements for databases that the handler's manifest names. The host signs in and keeps connections; the handler sees no
 * password.
 */
export interface Sql {
  /**
   * Runs one statement in a transaction of its own. `params` is an array of the values of `$1`, `$2` and so on.
   *
   * Throws SqlError.
   */
  query(database: string, statement: string, params: string): SqlRows;
  /**
   * Begins a transaction, whose statements take effect together, and returns its number. It is rolled back with the end of the
   * run unless it is committed.
   *
   * Throws SqlError.
   */
  begin(database: string): number;
  /**
   * Runs one statement of a transaction.
   *
   * Throws SqlError.
   */
  queryIn(transaction: number, statement: string, params: string): SqlRows;
  /**
   * Makes a transaction take effect. Fails if one of its statements has failed.
   *
   * Throws SqlError.
   */
  commit(transaction: number): void;
  /**
   * Ends a transaction without effect.
   *
   * Throws SqlError.
   */
  rollback(transaction: number): void;
}

/**
 * Values that handlers keep from one attempt to another, by key. Each handler has a space of its own; the manifest
 * names those that it shares with others. Keys have 1 to 512 bytes, values at most 1 MiB.
 *
 * What an attempt sets is visible to itself at once, and to others exactly if it completes. Functions with `now` in
 * their names change the store at once.
 */
export interface State {
  /**
   * Returns the value of a key.
   *
   * Throws JobsError.
   */
  get(space: string | undefined, key: string): Uint8Array | undefined;
  /**
   * Sets a key.
   *
   * Throws JobsError.
   */
  set(space: string | undefined, key: string, value: Uint8Array): void;
  /**
   * Removes a key.
   *
   * Throws JobsError.
   */
  delete(space: string | undefined, key: string): void;
  /**
   * Sets a key, or removes it without `value`, if it has the `expected` value, or none. Returns whether it has.
   * If it has another when the attempt completes, the attempt fails and is retried.
   *
   * Throws JobsError.
   */
  compareAndSet(space: string | undefined, key: string, expected: Uint8Array | undefined, value: Uint8Array | undefined): boolean;
  /**
   * Lists keys that start with `prefix`, in the order of their bytes, after the key `after`. Returns at most
   * 1,000; none if there are no more.
   *
   * Throws JobsError.
   */
  list(space: string | undefined, prefix: string, after: string | undefined): Array<string>;
  /**
   * Sets a key now.
   *
   * Throws JobsError.
   */
  setNow(space: string | undefined, key: string, value: Uint8Array): void;
  /**
   * Removes a key now.
   *
   * Throws JobsError.
   */
  deleteNow(space: string | undefined, key: string): void;
  /**
   * Sets or removes a key now, if it has the `expected` value. Returns whether it had.
   *
   * Throws JobsError.
   */
  compareAndSetNow(space: string | undefined, key: string, expected: Uint8Array | undefined, value: Uint8Array | undefined): boolean;
}

/** What the journal has of a step. */
export type StepsProgress =
  /** Nothing: do it. */
  | { tag: 'new' }
  /** Its last checkpoint: continue behind it. */
  | { tag: 'begun'; val: string }
  /** Its result. The step is over. */
  | { tag: 'done'; val: string }
  /** Why it failed. The step is over, because the handler has continued with another one. */
  | { tag: 'failed'; val: string };

/**
 * Parts of a job that are done once, in the order in which the handler begins them. The host keeps a journal of them with the
 * job: an attempt that follows runs the handler from its start, and gets what is kept of each. One step runs at a time.
 *
 * What the handler enqueues, sets and closes in a step is committed together with the step, and not with the attempt's end.
 * If a handler begins another step than an earlier attempt did at this point, the host ends the attempt and discards the job.
 */
export interface Steps {
  /**
   * Begins the next step. A name has 1 to 128 of the characters `A-Z a-z 0-9 _ . : / -`. Further steps of the same name
   * are kept as `NAME#2` and so on.
   *
   * Throws JobsError.
   */
  begin(name: string): StepsProgress;
  /**
   * Commits how far the step is, with what was written since it began or since its last checkpoint. It is on disk before
   * this returns. A checkpoint has at most 64 KiB. If it is refused, the step has failed.
   *
   * Throws JobsError.
   */
  checkpoint(checkpoint: string): void;
  /**
   * Ends the step with its result, at most 64 KiB, and commits it like a checkpoint.
   *
   * Throws JobsError.
   */
  complete(result: string): void;
  /**
   * Ends the step without a result: what was written since its last checkpoint is dropped. If the handler then begins another
   * step, the failure is kept; otherwise the next attempt does this step again.
   *
   * Throws JobsError.
   */
  fail(error: string): void;
}

/** All that the host offers. */
export interface Host {
  jobs: Jobs;
  artifacts: Artifacts;
  control: Control;
  http: Http;
  limits: Limits;
  log: Log;
  secrets: Secrets;
  sql: Sql;
  state: State;
  steps: Steps;
}
