// The types of the client. Documents of the API are as they are in JSON, with the types of `api.d.ts`.

import type {
  Accepted, Api, Attempt, Cancel, Change, Deployed, Gap, Job, JobOptions, JobsListQuery, Line, NewJob, ProgressEvent,
  Upload,
} from './api.js';

export type * from './api.js';

export interface ClientOptions {
  /** The host's address: `HOST_SERVER`, that of the context, or http://127.0.0.1:7700 if absent. */
  server?: string;
  /** The token: that of `HOST_TOKEN_FILE`, `HOST_TOKEN` or the context if absent. */
  token?: string;
  tokenFile?: string;
  /** The context to use in place of the current one of the command line. */
  context?: string;
  /** For how long a request is repeated while the host does not answer or says that it is busy; 30,000 if absent. */
  patienceMs?: number;
  /** Sends requests in place of the global `fetch`. */
  fetch?: typeof fetch;
}

/** What happened. Only changes and gaps have an id. */
export type Event =
  | { kind: 'change'; id: number; data: Change }
  | { kind: 'progress'; data: ProgressEvent }
  | { kind: 'gap'; id: number; data: Gap };

/** Events that continue where they were when a connection breaks. */
export interface Events extends AsyncIterableIterator<Event> {
  /** Where another stream may continue. */
  readonly lastId: number | undefined;
}

interface Page<Item> {
  items: Item[];
  next_cursor?: string | null;
}

/** A client of one host. Without options it uses what the command line would. */
export class Client {
  constructor(options?: ClientOptions);
  readonly server: string;
  /** All operations of the API. */
  readonly api: Api;
  /**
   * Enqueues a job. It is one job even if an answer is lost on the way: for that, a job without a unique key gets a
   * random one of scope `retained`. With a key of another scope, a request is not repeated after it may have been
   * carried out.
   */
  enqueue(handler: string, params?: unknown, options?: JobOptions): Promise<Accepted>;
  /** Enqueues a job, waits for its end, and returns its result, or throws JobFailed, JobCancelled, ResultWithheld or WaitTimeout. */
  enqueueAndWait<Result = any>(
    handler: string,
    params?: unknown,
    options?: JobOptions & { timeoutMs?: number },
  ): Promise<Result>;
  /** Enqueues up to 1,000 jobs, all or none; `#0` in `depends_on` is the first of them. */
  enqueueArray(jobs: Iterable<NewJob>): Promise<Accepted[]>;
  /**
   * Enqueues any number of jobs, array by array, and returns how many there were. `accepted` is called with the
   * answers to each array, in the order of the jobs.
   */
  enqueueMany(
    jobs: Iterable<NewJob> | AsyncIterable<NewJob>,
    accepted?: (page: Accepted[]) => unknown,
  ): Promise<number>;
  /** Returns a job as it is now. */
  job(id: string): Promise<Job>;
  /** Waits until a job has ended, and returns it, however it ended. A restart of the host does not matter. */
  wait(id: string, options?: { timeoutMs?: number }): Promise<Job>;
  /** Waits until a job has ended, and returns its result, or throws JobFailed, JobCancelled, ResultWithheld or WaitTimeout. */
  result<Result = any>(id: string, options?: { timeoutMs?: number }): Promise<Result>;
  /** Lists the jobs that match, the newest first; `limit` is the size of a page. */
  jobs(filter?: JobsListQuery): AsyncGenerator<Job>;
  /** Lists what a job has logged so far. */
  log(id: string): AsyncGenerator<Line>;
  /** Lists the attempts of a job. */
  attempts(id: string): AsyncGenerator<Attempt>;
  /** Lists all items of an operation that answers in pages: `client.items((query) => client.api.tokens.list(query))`. */
  items<Item, Query extends object>(operation: (query: Query) => Promise<Page<Item>>, query?: Query): AsyncGenerator<Item>;
  /** Cancels a job. If it is running, its handler has `graceMs` to stop by itself. */
  cancel(id: string, options?: { reason?: string; graceMs?: number }): Promise<Cancel>;
  /** Runs a job that was discarded or cancelled again; with `force` without those that it depends on. */
  retry(id: string, options?: { force?: boolean }): Promise<Job>;
  /** Returns what happens from now on, or after the event with an id. The stream of one job ends with the job. */
  events(options?: { job?: string; queue?: string; after?: number }): Promise<Events>;
  /** Sends a file for jobs to read. `files` of a job names its `id`. */
  upload(content: Uint8Array | Blob, options?: { contentType?: string }): Promise<Upload>;
  /** Deploys a component, with the text of its manifest. */
  deploy(
    name: string,
    component: Uint8Array,
    options?: { manifest?: string; acceptGrants?: boolean; force?: boolean },
  ): Promise<Deployed>;
}

/** Any error of this package. */
export class HostError extends Error {}

/** The address, the token or the context cannot be used. */
export class SettingsError extends HostError {}

/** The host did not answer. It may have carried out the request if `mayHaveHappened`. */
export class Unreachable extends HostError {
  readonly mayHaveHappened: boolean;
}

/** The host refused the request; `code` is one of those in docs/errors.md. */
export class Refused extends HostError {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly next: string;
  /** In seconds. */
  readonly retryAfter: number | undefined;
}

/** A job that was awaited has ended and did not complete; `job` is the whole of it. */
export class JobEnded extends HostError {
  readonly job: Job;
}

/** The job was discarded: it failed and is not retried again. */
export class JobFailed extends JobEnded {}

/** The job was cancelled; `job.result` is what it had done, if it said so. */
export class JobCancelled extends JobEnded {}

/**
 * The job has completed, but this token may not see its result; `job` is what it may see. The token needs the verb
 * `read_payload`, or `read_own` for jobs that it enqueues itself.
 */
export class ResultWithheld extends HostError {
  readonly job: Job;
}

/** The job has not ended in time, and continues. */
export class WaitTimeout extends HostError {
  readonly job: Job;
}
