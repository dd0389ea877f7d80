// The types of this package. Those of params and results come from the JSON Schemas of a handler.

import type { Category as InterfaceCategory, Context, HttpErrorKind, HttpRequest, JobsErrorKind, LogLevel, SqlErrorKind } from './interface.js';

export type { Context, HttpErrorKind, HttpRequest, JobsErrorKind, LogLevel, SqlErrorKind } from './interface.js';

/** A JSON Schema. */
export type Schema = { readonly [keyword: string]: unknown };

type Simple<T> = string extends T
  ? unknown
  : T extends 'string'
  ? string
  : T extends 'number' | 'integer'
    ? number
    : T extends 'boolean'
      ? boolean
      : T extends 'null'
        ? null
        : T extends 'array'
          ? unknown[]
          : { [key: string]: unknown };

type Properties<P, R> = {
  -readonly [K in keyof P as K extends R ? K : never]: Typed<P[K]>;
} & {
  -readonly [K in keyof P as K extends R ? never : K]?: Typed<P[K]>;
};

type Flat<T> = { [K in keyof T]: T[K] };

/** The type of what fits a JSON Schema, as far as it is in `type`, `properties`, `required`, `items`, `enum`, `const`,
 * `anyOf` and `additionalProperties`. */
export type Typed<S> = S extends { readonly const: infer C }
  ? C
  : S extends { readonly enum: readonly (infer E)[] }
    ? E
    : S extends { readonly anyOf: readonly (infer A)[] }
      ? Typed<A>
      : S extends { readonly type: 'array'; readonly items: infer I }
        ? Typed<I>[]
        : S extends { readonly properties: infer P; readonly required: readonly (infer R)[] }
          ? Flat<Properties<P, R>>
          : S extends { readonly properties: infer P }
            ? Flat<Properties<P, never>>
            : S extends { readonly type: 'object'; readonly additionalProperties: infer V extends Schema }
              ? { [key: string]: Typed<V> }
              : S extends { readonly type: readonly (infer T)[] }
                ? Simple<T>
                : S extends { readonly type: infer T }
                  ? Simple<T>
                  : unknown;

/** What `host handler ls` shows of a handler, and what the host checks params with before it accepts a job. */
export interface About<P, R> {
  description?: string;
  /** The JSON Schema of the params. */
  params?: P;
  /** The JSON Schema of the result. */
  result?: R;
}

type Run<P, R> = (ctx: Ctx, params: Typed<P>) => Typed<R> | Promise<Typed<R>>;

/** Makes a function a handler of this name, and returns it. */
export function handler<const P, const R>(name: string, about: About<P, R>, run: Run<P, R>): Run<P, R>;

/** A job to enqueue. Other fields are those of `POST /api/v1/jobs`. */
export interface NewJob {
  /** The handler, perhaps behind the name of a runner: `python#send_email`. */
  handler: string;
  params?: unknown;
  /** The queue; `default` if none is given. */
  queue?: string;
  /** 0 is the most urgent, 9 the least. */
  priority?: number;
  /** Only one job with this key may wait or run in its queue. */
  uniqueKey?: string;
  /** The job starts so many seconds later at the earliest. */
  delaySeconds?: number;
  /** The jobs that must end first: ids if they must complete. `#n` is job n (from 0) of the same call. */
  dependsOn?: (string | { job: string; when: 'completed' | 'ended' | 'failed' })[];
  /** Names below `/inputs` in its params, and the jobs of `dependsOn` whose results are there when it starts. */
  inputs?: Record<string, string>;
  /** Other data, which the handler gets with the job. */
  attributes?: Record<string, string>;
  [field: string]: unknown;
}

/** What a request has besides its address. */
export interface RequestOptions {
  method?: string;
  headers?: Record<string, string> | Iterable<[string, string]>;
  body?: string | ArrayBuffer | ArrayBufferView | (Iterable<[string, string]> & { toString(): string });
  /** A value that becomes the body, as JSON. */
  json?: unknown;
  /** What happens if the server redirects: `follow` sends up to 20 further requests, each of which the manifest must grant; to
   * another origin go no headers that could be credentials. `manual`, the default, returns the redirect. `error` throws. */
  redirect?: 'follow' | 'manual' | 'error';
  /** A time limit, in milliseconds. The manifest's is the longest. */
  timeoutMs?: number;
}

/** A response with its whole body. Any status is a response; see `throwForStatus`. */
export class Response {
  /** Makes a response, for tests: `body` is a text, bytes, or a value that becomes JSON. */
  constructor(body?: unknown, options?: { status?: number; headers?: Record<string, string> });
  readonly status: number;
  /** Whether the status is 2xx. */
  readonly ok: boolean;
  readonly headers: {
    get(name: string): string | null;
    has(name: string): boolean;
    [Symbol.iterator](): Iterator<[string, string]>;
  };
  /** The body as the server sent it. */
  readonly content: Uint8Array;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
  text(): Promise<string>;
  json(): Promise<any>;
  /** Returns the response if its status is 2xx. Of other statuses, 408, 425, 429 and 5xx are retried. */
  throwForStatus(): Response;
}

/** Values that the handler keeps from one attempt to another. What an attempt sets is stored exactly if it completes. */
export interface State {
  /** The same state, stored immediately. */
  readonly now: State;
  /** Returns a space that the manifest shares. */
  shared(space: string): State;
  /** Returns the value of a key. */
  get<T = any>(key: string): T | undefined;
  /** Sets a key. */
  set(key: string, value: unknown): void;
  /** Removes a key. */
  delete(key: string): void;
  /** Sets a key, or removes it if `value` is `undefined`, if it has the expected value, or none. Returns whether it had. If
   * it has another when the attempt completes, the attempt fails and is retried. */
  compareAndSet(key: string, expected: unknown, value: unknown): boolean;
  /** Returns the keys that start with `prefix`, in the order of their bytes. */
  list(prefix?: string): string[];
  /** Returns the value of a key as it is stored. */
  getBytes(key: string): Uint8Array | undefined;
  /** Sets a key to bytes. */
  setBytes(key: string, value: Uint8Array): void;
}

type Fields = Record<string, unknown>;

/** The job of a handler, and what the host offers to it. */
export interface Ctx {
  readonly job: Context;
  readonly state: State;
  /** Files that the job produces and reads, if the manifest has `artifact_mib`. */
  readonly artifacts: Artifacts;
  /** Returns what the sender attached to the job under this name. */
  attribute(name: string): string | undefined;
  /** Returns the reason if the job has been asked to stop. */
  cancelled(): string | undefined;
  /** Ends the attempt if the job has been asked to stop. Call it in loops. */
  checkCancelled(partial?: unknown): void;
  /** Returns how many milliseconds of the time limit are left, if there is one. */
  remainingMs(): number | undefined;
  /** Reports progress: 0 to 100 percent, or `undefined` if that is not known, and what the job is doing. */
  progress(percent: number | undefined, message: unknown): void;
  /** Sleeps without using CPU. */
  sleep(ms: number): void;
  /** Writes a line with fields to the job's log. Their values keep their types. */
  log(level: LogLevel, message: unknown, fields?: Fields): void;
  debug(message: unknown, fields?: Fields): void;
  info(message: unknown, fields?: Fields): void;
  warn(message: unknown, fields?: Fields): void;
  error(message: unknown, fields?: Fields): void;
  /** Sends a request to a server that the manifest names, and waits for the response. The host adds the headers of the
   * manifest. Redirects are followed only if `redirect` says so. */
  fetch(url: string, options?: RequestOptions): Promise<Response>;
  /** Enqueues a job that exists exactly if this attempt completes. Returns its id. */
  enqueue(job: NewJob): string;
  /** Enqueues jobs, all or none. Returns their ids, in order. */
  enqueueAll(jobs: NewJob[]): string[];
  /** Enqueues a job that stays if this attempt does not complete. Give it a unique key: an attempt that follows enqueues it
   * again. Returns its id, or that of the job that has the key. */
  enqueueNow(job: NewJob): string;
  /** Enqueues jobs, all or none, as `enqueueNow` does. Returns their ids, in order. */
  enqueueAllNow(jobs: NewJob[]): string[];
  /** Holds the key that the job has of a limit, for 24 hours (86,400,000 ms) at most: no job of the key starts within this
   * time, on any node. It is stored immediately, whatever becomes of this attempt. If the attempt then throws `Retry`, it does not
   * count. */
  hold(limit: string, ms: number): void;
  /** Returns a database that the manifest names: `[[handlers.NAME.sql]]`. The host signs in. */
  sql(name: string): Sql;
  /** Returns the value of a secret that the manifest lets the handler see. */
  secret(name: string): string;
}

/** What a statement returned. Iterating gives an object for each row. Booleans, integers, floating-point numbers, JSON and arrays of
 * these have their types; all other values, such as `numeric` and `timestamptz`, are texts as the database writes them. */
export interface Rows<T = Record<string, any>> extends Iterable<T> {
  readonly columns: string[];
  readonly values: any[][];
  /** How many rows the statement returned or changed. */
  readonly affected: number;
}

/** Statements that take effect together. */
export interface Transaction {
  query<T = Record<string, any>>(statement: string, params?: unknown[]): Rows<T>;
}

/** Files that the job produces, which are kept with it exactly if the attempt completes, and files that it reads. */
export interface Artifacts {
  /** Begins a file. Without `contentType`, it is `application/octet-stream`. */
  create(name: string, options?: { contentType?: string }): ArtifactWriter;
  /** Opens a file that the job was enqueued with, by its name in `files`. */
  open(name: string): ArtifactReader;
}

/** A file that is being read, piece by piece: `for (const piece of file)`, or what is left of it together. */
export interface ArtifactReader extends Iterable<Uint8Array> {
  bytes(): Uint8Array;
  text(): string;
  close(): void;
}

/** A file that is being written. It is kept only if it is closed. */
export interface ArtifactWriter {
  write(content: Uint8Array | string): void;
  close(): void;
}

/** A database that the manifest names. */
export interface Sql {
  /** Runs one statement in a transaction of its own. `params` are the values of `$1`, `$2` and so on. */
  query<T = Record<string, any>>(statement: string, params?: unknown[]): Rows<T>;
  /** Runs statements that take effect together: if `run` throws, none of them does. */
  transaction<R>(run: (transaction: Transaction) => R | Promise<R>): Promise<R>;
}

/** Who must act on an error, as the API shows it. */
export type Category = 'USER_CODE' | 'DATA_QUALITY' | 'INFRASTRUCTURE' | 'CONFIGURATION' | 'TIMEOUT' | 'CANCELLED';

/** The attempt failed. `retryable` says whether another attempt may help; without it the category decides. */
export class JobError extends Error {
  constructor(
    message: string,
    options?: {
      kind?: string;
      /** `USER_CODE` if absent. Other spellings are accepted. */
      category?: Category | Lowercase<Category> | InterfaceCategory;
      code?: string;
      details?: unknown;
      retryable?: boolean;
      cause?: unknown;
    },
  );
  readonly kind: string;
  readonly category: Category;
  readonly code?: string;
  readonly details?: unknown;
  readonly retryable?: boolean;
}

/** A statement returned nothing. `code` is the SQLSTATE, if the database answered. */
export class SqlError extends JobError {
  constructor(refused: { kind: SqlErrorKind; code?: string; message: string });
}

/** There is no response. */
export class HttpError extends JobError {
  constructor(refused: { kind: HttpErrorKind; message: string });
}

/** The host does not do what the handler asks of its store. */
export class StoreError extends JobError {
  constructor(refused: { kind: JobsErrorKind; message: string });
}

/** The handler asks for another attempt, `afterMs` milliseconds from now or after the job's backoff. */
export class Retry extends Error {
  constructor(reason: string, options?: { afterMs?: number });
  readonly afterMs?: number;
}

/** The handler stopped on request, with its partial results. */
export class Cancelled extends Error {
  constructor(partial?: unknown);
  readonly partial: unknown;
}

/** Takes the place of the host in a test, and records what the handler does. Without `answer` and `replay` no request is
 * granted, without `secrets` no secret, without `limits` the job has none, and with `store: false` neither jobs nor state. */
export class MockHost {
  constructor(options?: {
    attempt?: number;
    attributes?: Record<string, string>;
    answer?: (request: HttpRequest) => Response;
    /** A recording that answers requests: a file in the format HAR, which developer tools of browsers and proxies such as
     * mitmproxy write. A request gets the responses of the entries with its method and URL, and its body if `postData`
     * has a `text`: each once, in order, and then the last one. */
    replay?: string;
    state?: Record<string, unknown>;
    secrets?: Record<string, string>;
    limits?: string[];
    /** What answers statements, by the name of the database. A transaction begins with the statement `BEGIN` and ends with `COMMIT`
     * or `ROLLBACK`. */
    sql?: Record<string, (statement: string, params: unknown[]) => Partial<Pick<Rows, 'columns' | 'values' | 'affected'>> | undefined>;
    /** The files that the job was enqueued with. */
    files?: Record<string, Uint8Array | string>;
    store?: boolean;
  });
  readonly job: Context;
  /** The context to call a handler with. */
  readonly ctx: Ctx;
  /** All reported progress. */
  readonly progress: { percent: number | undefined; message: string }[];
  /** All lines of the log. */
  readonly logs: { level: LogLevel; message: string; fields: Record<string, unknown> }[];
  /** All requests to HTTP servers. */
  readonly requests: HttpRequest[];
  /** The jobs that exist exactly if their attempt completes, without those of attempts that did not. */
  readonly enqueued: Record<string, any>[];
  /** The jobs that were enqueued immediately. */
  readonly enqueuedNow: Record<string, any>[];
  /** The limits whose keys were held, in order. */
  readonly holds: { limit: string; ms: number }[];
  /** The statements for databases, in order. */
  readonly statements: { database: string; statement: string }[];
  /** The content of artifacts of attempts that have completed, by their names. */
  readonly artifacts: Map<string, Uint8Array>;
  /** All sleeps together, in milliseconds. The mock does not really sleep. */
  readonly sleptMs: number;
  /** Calls a handler as one attempt: what it has enqueued and set is kept if it completes, and dropped if not. */
  run<P, R>(run: (ctx: Ctx, params: P) => R | Promise<R>, params: NoInfer<P>): Promise<R>;
  /** Calls a handler by its name as the host does, with JSON, as one attempt. */
  call(name: string, params?: unknown): Promise<any>;
  /** Asks the handler to stop, at its next check for cancellation or after some. */
  cancel(reason: string, options?: { afterChecks?: number }): void;
  /** Returns what the handler keeps under a key. */
  state<T = any>(key: string): T | undefined;
}
