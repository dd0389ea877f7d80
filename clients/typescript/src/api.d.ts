// The documents and the operations of the API. `clients/generate.py` writes this file from the OpenAPI document.

/** The result for one job of a request. */
export interface Accepted {
  /** Whether it was there before. */
  existing: boolean;
  /**
   * Present and true if it was there before with other params than these, and the caller may see the params of
   * that job.
   */
  existing_params_differ?: boolean | null;
  /** The job that answers the request: the new one, or the one that has its unique key. */
  id: string;
  /** That job's state. */
  state: JobState;
}

/** The answer to an enqueue: that for one job, or an array for an array. */
export type AcceptedJobs = Accepted | Array<Accepted>;

/** A file that a job has produced. */
export interface Artifact {
  /** Its length. */
  bytes: number;
  /** What its handler says that it is. */
  content_type: string;
  /** Its name. */
  name: string;
  /** The SHA-256 of its content, in hexadecimal digits. */
  sha256: string;
}

/** A node that was asked to start no more jobs, or to start some again. */
export interface AskedNode extends Node {
  /** What that means for waiting jobs, if no node starts any. */
  note?: string | null;
  /** How many other nodes start jobs. */
  others_live: number;
}

/** An attempt. One that is running has no end yet; its numbers are the latest reported. */
export interface Attempt {
  /** The component it was executed with. */
  component?: string | null;
  /** CPU time of the guest and of the host calls made for it. */
  cpu_ms: number;
  /** From claim to recorded end. */
  duration_ms?: number | null;
  /** Who executed it: `cell-3`, `python/1`. */
  executor: string;
  /** Why, if it did not complete. */
  failure?: Failure | null;
  /** When its end was recorded. */
  finished_at?: string | null;
  /** Fuel, in wasmtime's units. */
  fuel: number;
  /** The node that runs it, while it runs, if other nodes may share the store. */
  node?: NamedNode | null;
  /** 1 for the first. */
  number: number;
  /** How it ended, or that it runs. */
  outcome: AttemptOutcome;
  /** Its peak linear memory. */
  peak_memory_bytes: number;
  /** Its requests to HTTP servers, once it has ended, if it made some. */
  requests?: Requests | null;
  /** Which revision of it. */
  revision?: number | null;
  /** When it was claimed. */
  started_at: string;
  /** `failure` if the caller may not see more of it than its kind. */
  withheld?: Array<Withheld> | null;
  /** What a foreign worker reports about itself and the end of the attempt. */
  worker?: WorkerReport | null;
}

/** How an attempt ended, or that it runs. */
export type AttemptOutcome = "running" | "completed" | "failed" | "retry" | "cancelled" | "lost";

/** One entry. `hash` is the SHA-256 of `previous`, a line break, `number`, a line break, and the text of `record`. */
export interface AuditEntry {
  /** Its own hash. */
  hash: string;
  /** Its place, from 1. */
  number: number;
  /** The hash of the entry before it, in hexadecimal digits; zeros for the first. */
  previous: string;
  /** What happened. */
  record: AuditRecord;
}

/** What happened. */
export interface AuditRecord {
  /** From which address. */
  address?: string | null;
  /** When (RFC 3339). */
  at?: string;
  /** More about what was asked for. */
  detail?: string | null;
  /** Of what. */
  object?: string;
  /** `done`, or why not. */
  outcome?: string;
  /** Who asked: `token:ID`, `uid:NUMBER`, `host`, or empty if that is unknown. */
  principal?: string;
  /** The id of the request. */
  request?: string | null;
  /** How often, if the entry covers several. */
  times?: number;
  /** The name of the principal's token. */
  token_name?: string | null;
  /** What was asked for. */
  verb?: string;
}

/** The nominal times to enqueue jobs for. */
export interface BackfillBody {
  /** The first instant (RFC 3339). */
  from: string;
  /** The last instant (RFC 3339). At most 1,000 nominal times may lie between the two. */
  until: string;
}

/** The pauses between the attempts of a job. Each is up to 20 % shorter or longer. */
export interface Backoff {
  /** The pause after the first attempt; it doubles with each further one. */
  base_ms: number;
  /** The longest pause. */
  max_ms: number;
}

/** A batch of jobs. */
export interface Batch {
  callbacks: Array<BatchCallbackJob>;
  /** The reason given for the cancel. */
  cancel_reason?: string | null;
  /** When its cancel was requested. */
  cancel_requested_at?: string | null;
  /** When it is closed, if it is not closed earlier. */
  closes_at?: string | null;
  counts: BatchCounts;
  /** When it was made (RFC 3339). */
  created_at: string;
  /** The principal that made it, if that is known. */
  created_by?: string | null;
  /** When all of its jobs had ended. Jobs may be retried later. */
  ended_at?: string | null;
  id: string;
  /** When it is forgotten, if it has ended. */
  kept_until?: string | null;
  /** What it is called. */
  name?: string | null;
  /** `open`: jobs may be added. `closed`: its jobs have not all ended. `ended`: they have. */
  state: BatchState;
  /** What it waits for. */
  waits_because?: string | null;
}

/** What a callback of a batch waits for. */
export type BatchCallback = "on_first_failure" | "on_success" | "on_end";

/** A callback of a batch. */
export interface BatchCallbackJob {
  /** Whether its job was enqueued. */
  enqueued: boolean;
  handler: string;
  /** The id of its job, which exists once it is enqueued. */
  job: string;
  /** What it waits for. */
  on: BatchCallback;
  queue: string;
}

/** Why a batch is cancelled. */
export interface BatchCancel {
  /** A reason that its jobs show. */
  reason?: string | null;
}

/** How many jobs a batch has, in all and by how they ended. Jobs that were deleted since are counted. */
export interface BatchCounts {
  cancelled: number;
  completed: number;
  /** Those that failed. */
  discarded: number;
  jobs: number;
  not_ended: number;
}

/** A batch that a job makes when it is enqueued. */
export interface BatchPlan {
  /** What to call it: 1 to 100 characters. Names need not differ. */
  name?: string | null;
  /** The receivers that are notified when it ends. */
  notify?: Notify | null;
  /** Enqueued when all jobs have ended. */
  on_end?: NewJob | null;
  /** Enqueued when the first job is discarded. */
  on_first_failure?: NewJob | null;
  /**
   * Enqueued when all jobs have completed. Callbacks are called with `{batch, callback, counts, failed}`, and
   * have no params of their own.
   */
  on_success?: NewJob | null;
  /** Whether jobs may be added until it is closed, for at most 7 days. */
  open?: boolean;
  /** How long it is kept after it has ended, at least 1; 604800 (7 days) if absent. */
  retention_seconds?: number | null;
}

/** Whether jobs may be added to a batch, and whether its jobs have ended. */
export type BatchState = "open" | "closed" | "ended";

/** The caller of a request. */
export interface Caller {
  /** Who it is: `token:ID`, `uid:NUMBER`, or empty on a host that asks for no tokens. */
  principal: string;
  /** What it uses of its share at this node, if it has one. */
  share?: Share | null;
  /** Its token, if it has one. */
  token?: Token | null;
  /** What it may do. */
  verbs: Array<string>;
  /** How many of its jobs wait or run, if that is limited. */
  waiting?: number | null;
}

/** How to stop a job. */
export interface CancelBody {
  /** How long a running handler may take to stop by itself. */
  grace_seconds?: number | null;
  /** Why; it is shown with the job. */
  reason?: string | null;
}

/** The result of a cancel. */
export interface Cancel {
  /** When the job's first cancel was accepted. */
  cancel_requested_at?: string | null;
  /** The job. */
  id: string;
  /** `running` until it has stopped, else `cancelled`. */
  state: JobState;
}

/** What failures with the same cause have in common. */
export interface Cause {
  /** The id of the newest. */
  example: string;
  /** The same for all of them; lists and changes of jobs take it as a filter. */
  fingerprint: string;
  /** When the first of them ended (RFC 3339). */
  first_at: string;
  /** The handler. */
  handler: string;
  /** How many jobs. */
  jobs: number;
  /** The kind of failure; `docs/errors.md` explains all. */
  kind: string;
  /** When the last one ended. */
  last_at: string;
  /** The message, with a sign in place of numbers, ids and quotations. */
  pattern: string;
  /** The handler's own name for the error. */
  user_kind?: string | null;
}

/** Why jobs were discarded. */
export interface Causes {
  /** Whether these were all. If not, a cause may have more jobs than are counted. */
  complete: boolean;
  /** How many jobs were examined, the newest first: at most 5,000. */
  examined: number;
  /** The causes, those of the most jobs first: at most 100. */
  items: Array<Cause>;
}

/** The data of an event `change`: a job entered, changed or left its state. */
export interface Change {
  at: string;
  attempt: number;
  /** `null` for a new job. */
  from?: JobState | null;
  handler: string;
  job: string;
  queue: string;
  /** `null` for one that was purged. */
  to?: JobState | null;
}

/** A time at which a schedule will fire. */
export interface ComingFiring {
  /** When it fires, in UTC. */
  fires_at: string;
  /** The nominal time (RFC 3339), in the schedule's time zone with its offset from UTC. */
  nominal: string;
}

/** A component with all its revisions. */
export interface Component {
  /** Its name. */
  component: string;
  /** The revision that new attempts are executed with. */
  current: number;
  /** Whether each node can run the current revision. Nodes that are gone are left out. */
  nodes: Array<NodeReadiness>;
  /** All revisions, the newest first. */
  revisions: Array<Kept>;
}

/** What attempts have cost. */
export interface Cost {
  /** The CPU time of one. */
  cpu_us: Spread;
  /** How many of them failed or were lost. A handler that asked for another attempt has not failed. */
  failures: number;
  /** The fuel of one. */
  fuel: Spread;
  /** The most linear memory of one. */
  peak_memory_bytes: Spread;
  /** How long one took. */
  ran_ms: Spread;
  /** How many have ended. */
  runs: number;
}

/** How many jobs match. */
export interface Count {
  /** Whether all jobs were examined. If not, there may be more. */
  complete: boolean;
  jobs: number;
  /** When the last of them was enqueued. */
  newest?: string | null;
  /** Where the count continues if there may be more. */
  next_cursor?: string | null;
  /** When the first of them was enqueued. */
  oldest?: string | null;
}

/** A job to wait for: its id if it must complete, or `{"job", "when"}`. */
export type DependsOn = string | DependsOnCondition;

/** A job to wait for, and how it has to end. */
export interface DependsOnCondition {
  /** The id of the job; in an enqueue also `#n`, entry n of the same array. */
  job: string;
  /**
   * How it has to end; `completed` if absent. `ended`: in any way. `failed`: it is discarded; if it completes or
   * is cancelled, the job that waits is cancelled.
   */
  when?: PrerequisiteWhen | null;
}

/** What a deploy or a rollback did. */
export interface Deployed extends Revision {
  /** What its handlers may access that the previous revision could not. */
  grants_added: Array<string>;
  /** What handlers of the previous revision could access and cannot any more. */
  grants_removed: Array<string>;
  /** Handlers of the previous revision that it lacks. */
  handlers_removed: Array<RemovedHandler>;
  /** Limits that differ from the previous revision. */
  limits_changed: Array<LimitChange>;
  /** How many nodes there are, without those that are gone. */
  nodes_all: number;
  /** How many nodes can run it already: at least the one that answers. */
  nodes_ready: number;
  /** Interfaces that it imports but is not given: calls to them fail. */
  stubbed: Array<string>;
  /** Whether it was current before. */
  unchanged: boolean;
}

/** A directory to read. */
export interface DirGrant {
  /** Where the guest sees it. */
  guest: string;
  /** Where it is on the host. */
  host: string;
}

/** How an attempt failed. */
export interface Failure {
  /** Who has to act. */
  category: FailureCategory;
  /** The handler's own code. */
  code?: string | null;
  /** More data from the handler. */
  details?: any;
  /** The cause; `docs/errors.md` explains all. */
  kind: FailureWord;
  /** One sentence for a person. Lists leave it out. */
  message?: string;
  /** Whether another attempt may follow. */
  retryable: boolean;
  /** A stack trace of the guest. */
  stack?: string | null;
  /** The handler's own name for the error. */
  user_kind?: string | null;
}

/** Who has to act on a failure. */
export type FailureCategory = "USER_CODE" | "DATA_QUALITY" | "INFRASTRUCTURE" | "CONFIGURATION" | "TIMEOUT" | "CANCELLED";

/** Why an attempt failed. */
export type FailureWord = "user_error" | "trapped" | "fuel_exhausted" | "timed_out" | "memory_limit" | "result_too_large" | "invalid_params" | "handler_not_found" | "grant_missing" | "cancelled" | "cancel_timeout" | "lease_lost" | "cell_lost" | "poison" | "prerequisite_failed" | "writes_refused" | "input_failed" | "steps_diverged";

/** What became of a firing. */
export interface Firing {
  /** When it was decided. */
  at: string;
  /** What became of it. */
  fate: FiringFate;
  /** The job that was enqueued. */
  job?: string | null;
  /** The nominal time (RFC 3339); the last of several that were missed. */
  nominal: string;
  /** Why no job was enqueued. */
  reason?: string | null;
  /** How many nominal times were missed. */
  times?: number | null;
  /** `reason` if the caller may not see it: it may quote params. That needs the verb `read_payload`. */
  withheld?: Array<Withheld> | null;
}

/** How often each thing has happened to a firing. */
export interface FiringCounts {
  /** Its job was refused. */
  failed: number;
  /** Its job was enqueued. */
  fired: number;
  /** Its job was enqueued more than 10 seconds late. These count as fired, too. */
  late: number;
  /** No host enqueued its job in time. */
  missed: number;
  /** An earlier job had not ended. */
  skipped: number;
}

/** What became of a firing. */
export type FiringFate = "fired" | "held" | "skipped" | "missed" | "failed";

/** The data of an event `gap`: changes were missed and are no longer kept. */
export interface Gap {
  /** How many; absent if unknown because the id is not one of this host. */
  lost?: number | null;
}

/** What an attempt may access. */
export interface Grants {
  /** Names of environment variables. */
  env: Array<string>;
  /** Limits whose keys it may hold. */
  hold: Array<string>;
  /** Requests to HTTP servers. */
  http: Array<HttpGrant>;
  /** Jobs to enqueue. */
  jobs: Array<JobsGrant>;
  /** Webhooks that the jobs it enqueues may notify. */
  notify: Array<string>;
  /** Directories to read. */
  read_dirs: Array<DirGrant>;
  /** Names of secrets that it may see. */
  secrets: Array<string>;
  /** Databases to query. */
  sql: Array<TcpGrant>;
  /** State to keep. */
  state?: StateGrant | null;
  /** Connections to servers. */
  tcp: Array<TcpGrant>;
}

/** A handler, as its component's current revision has it. */
export interface Handler {
  /** The pauses between attempts. */
  backoff: Backoff;
  /** The component it comes from. */
  component: string;
  /**
   * What its attempts in this host's cells have cost, by revision, the one that ran last first. Only revisions
   * that ran in the last day. After a restart it begins with the newest 100,000 attempts that the store has.
   */
  cost: Array<RevisionCost>;
  /** What it does. */
  description?: string | null;
  /** What an attempt may access besides its params. */
  grants: Grants;
  /** What an attempt may use. */
  limits: Limits;
  /** The most attempts of a job that sets no number, including the first. */
  max_attempts: number;
  /** Its name. */
  name: string;
  /** JSON Schema of its params; left out of lists. */
  params_schema?: any;
  /** JSON Schema of its result; left out of lists. */
  result_schema?: any;
  /** How long its discarded jobs are kept, in seconds, if the manifest says so. */
  retention_discarded_seconds?: number | null;
  /** How long its jobs are kept, in seconds, if the manifest says so. */
  retention_seconds?: number | null;
  /** Which revision of it. */
  revision: number;
}

/** The health of the host. */
export interface Health {
  /** Days until the certificate of the API expires, negative if it has; only with TLS. */
  certificate_days_left?: number | null;
  /** Which jobs share a cell: `shared`, all of them, or `component`, those of the same component. */
  isolation: string;
  /** Always `ok`. */
  status: string;
  /** How long it has been running. */
  uptime_seconds: number;
  /** The host's version. */
  version: string;
  /**
   * What this system lacks to sandbox cells fully, where `cells.allow_weak` permits that. Not shown by a host
   * with tokens.
   */
  weak?: Array<string>;
}

/** Requests to one HTTP server. */
export interface HttpGrant {
  /** The names of headers that the host adds. */
  headers: Array<string>;
  /** The methods; all if empty. */
  methods: Array<string>;
  /** Patterns of paths; all if empty. */
  paths: Array<string>;
  /** The names of secrets in headers, signatures and requests for access tokens. */
  secrets: Array<string>;
  /** How the host signs: `aws-sigv4`. */
  sign?: string | null;
  /** The server, as `https://api.example.com`. */
  to: string;
  /** Where the host gets access tokens. */
  token_url?: string | null;
}

/** A job. Lists leave out what is large: params, result and the rest that does not change. */
export interface Job {
  /** The files that it has produced. */
  artifacts?: Array<Artifact> | null;
  /** The current or latest attempt; 0 before the first. */
  attempt: number;
  /** How many attempts count so far. */
  attempts_charged: number;
  /** How many attempts do not count because they were lost through no fault of the job. */
  attempts_lost: number;
  /** Other values that its sender attached. */
  attributes?: Record<string, string> | null;
  /** The batch that counts it. */
  batch?: string | null;
  /** The reason given for the cancel. */
  cancel_reason?: string | null;
  /** When its cancel was requested. */
  cancel_requested_at?: string | null;
  /** The principal that enqueued it, if that is known. */
  created_by?: string | null;
  /** No attempt after this instant. */
  deadline?: string | null;
  /** The jobs that wait for it: the first 100. */
  dependents?: Array<string> | null;
  /** The jobs it waits or waited for. */
  depends_on?: Array<DependsOn> | null;
  /** When it was accepted (RFC 3339). */
  enqueued_at: string;
  /** The id a foreign orchestrator knows it by. */
  external_id?: string | null;
  /** Why its latest attempt did not complete. */
  failure?: Failure | null;
  /** The files that its handler reads, by name: the id of an upload, or `JOB/NAME` for an artifact of another job. */
  files?: Record<string, string> | null;
  /** When it ended. */
  finished_at?: string | null;
  /** The handler that executes it; `python#send_email` is one of a foreign runner. */
  handler: string;
  /** Its id. */
  id: string;
  /** The names below `/inputs` in its params, and the jobs whose results are there once they have ended. */
  inputs?: Record<string, string> | null;
  /** When it is forgotten, if it has ended. */
  kept_until?: string | null;
  /** When its foreign worker last sent a heartbeat. */
  last_heartbeat_at?: string | null;
  /** The most attempts that count. */
  max_attempts: number;
  /**
   * The node that runs it, if other nodes may share the store. Absent if its worker holds it by heartbeats,
   * because those may continue at any node.
   */
  node?: NamedNode | null;
  /** The receivers that are notified of its end. */
  notify?: Array<Notify> | null;
  /** What the handler is called with. */
  params?: any;
  /** How many jobs it still waits for. */
  prerequisites_open?: number | null;
  /** 0 (first) to 9. */
  priority: number;
  /** The latest progress of its attempt. */
  progress?: Progress | null;
  /** The queue it waits in. */
  queue: string;
  /** How long its attempts took together, in milliseconds. */
  ran_ms: number;
  /** The deadline that had passed when it was run again, and that no longer holds. Only in the answer to a retry. */
  removed_deadline?: string | null;
  /** Its result, or what it had done when it was cancelled. */
  result?: any;
  /** How long it is kept after it was discarded. */
  retention_discarded_seconds?: number | null;
  /** How long it is kept after it has completed or was cancelled. */
  retention_seconds?: number | null;
  /** Not before this instant, or when its next attempt is due. */
  run_at?: string | null;
  /** Its state. */
  state: JobState;
  /** The longest an attempt may take, if the job says so. */
  timeout_seconds?: number | null;
  /** W3C trace context. */
  trace_context?: Record<string, string> | null;
  /** The key that makes it unique in its queue. */
  unique_key?: string | null;
  /** How long it waited, in milliseconds: all the time until now or its end without an attempt. */
  waited_ms: number;
  /** Why it does not start, if no node can run it now or it waits for other jobs or a limit. */
  waits_because?: string | null;
  /** The wire it came in over; `http` is this API. */
  wire: string;
  /**
   * What it has, but the caller may not see: `params`, `result`, of the `failure` all but its kind, or of
   * `waits_because` the key of a limit. That needs the verb `read_payload`, or `read_own` if the caller has
   * enqueued the job. Of `depends_on`, `inputs` and `files`, jobs beyond the caller's scope are left out; then
   * `waits_because` is left out too.
   */
  withheld?: Array<Withheld> | null;
}

/** The batch of a job. */
export type JobBatch = string | BatchPlan;

/** What else a job may have. */
export interface JobOptions {
  /** Other values that the handler sees. */
  attributes?: Record<string, string> | null;
  /**
   * The batch that counts it: the id of one that is open or that of the job whose handler enqueues it; `#n` for
   * the one that entry n of the same array makes; or an object: a batch that it makes, as its first job. That
   * batch has the id of the job.
   */
  batch?: JobBatch | null;
  /** No attempt after this instant (RFC 3339). */
  deadline?: string | null;
  /** Not before this many seconds from now; excludes `run_at`. */
  delay_seconds?: number | null;
  /**
   * The jobs that must end first: each an id, or `#n` for entry n of the same array, if it must complete;
   * `{"job": ID, "when": "ended"}` if it may end in any way, and `"failed"` if it must be discarded.
   */
  depends_on?: Array<DependsOn>;
  /**
   * Files that its handler reads: names, and for each the id of an upload, or `JOB/NAME` for an artifact of a
   * job of `depends_on`. At most 100.
   */
  files?: Record<string, string>;
  /** Results that its params get below `/inputs`: names, and the jobs of `depends_on` that return them. */
  inputs?: Record<string, string>;
  /** The most attempts, at least 1; if absent, the handler's, which is 20 unless its manifest says otherwise. */
  max_attempts?: number | null;
  /** The receiver that is notified when it has ended. */
  notify?: Notify | null;
  /** 0 (first) to 9; 5 if absent. */
  priority?: number | null;
  /** The queue it waits in; `default` if absent. */
  queue?: string | null;
  /** How long it is kept if it is discarded, at least 1; if absent everywhere, as long as others. */
  retention_discarded_seconds?: number | null;
  /**
   * How long it is kept after it has ended, at least 1; if absent, as its queue says, else its handler, else
   * 604800 (7 days).
   */
  retention_seconds?: number | null;
  /** Not before this instant (RFC 3339). */
  run_at?: string | null;
  /** The longest an attempt may take; the handler's limit if absent. */
  timeout_seconds?: number | null;
  /** W3C trace context. */
  trace_context?: Record<string, string> | null;
  /** A key with a scope; excludes `unique_key`. */
  unique?: Unique | null;
  /**
   * If a job of the queue has this key and has not ended, it is returned instead. Short for `unique` with the
   * scope `active`.
   */
  unique_key?: string | null;
}

/** The state of a job. */
export type JobState = "pending" | "scheduled" | "available" | "running" | "retryable" | "completed" | "cancelled" | "discarded";

/** Jobs that a handler may enqueue. */
export interface JobsGrant {
  /** Patterns of their handlers. */
  handlers: Array<string>;
  /** Patterns of their queues. */
  queues: Array<string>;
}

/** One revision that is kept. */
export interface Kept extends Revision {
  /** Whether new attempts are executed with it. */
  current: boolean;
  /** Its limits and grants, as they were deployed. */
  manifest: any;
}

/** A limit. */
export interface Limit {
  /**
   * The fullest keys: those for which most jobs wait come first. Not in lists, nor for tokens that may not read
   * payloads.
   */
  keys?: Array<LimitKey> | null;
  /** How it was set. */
  limit: NewLimit;
  /** Its name. */
  name: string;
  /** Where it comes from. */
  source: LimitSource;
  /** How many jobs wait for it. */
  waiting: number;
  /** `keys` if the caller may not see them: they are parts of params. That needs the verb `read_payload`. */
  withheld?: Array<Withheld> | null;
}

/** A limit of a handler that has changed. */
export interface LimitChange {
  /** The value now; null if it is not set. */
  after?: number | null;
  /** The value before; null if it was not set. */
  before?: number | null;
  /** The handler. */
  handler: string;
  /**
   * Which limit, with its unit: `memory_bytes`, `fuel`, `timeout_ms`, `grace_ms`, `result_bytes_max`,
   * `log_bytes_max`, `scratch_bytes`, `artifact_bytes`, `steps_max`, `max_attempts`, `backoff_base_ms`,
   * `backoff_max_ms`, `retention_ms` or `retention_discarded_ms`.
   */
  limit: string;
}

/** A key of a limit. */
export interface LimitKey {
  /** How many may be claimed. */
  available: number;
  /** A handler holds the key until then: none of its jobs starts before. */
  held_until?: string | null;
  /** The value that its jobs have in common. Several parts are a JSON array; empty if a job has no such value. */
  key: string;
  /** How many run. */
  running: number;
  /** How many of its jobs wait. */
  waiting: number;
}

/** One part of a key or several: JSON pointers into params such as `/customer`, or `attributes:NAME`. */
export type LimitKeyParts = string | Array<string>;

/** Which jobs a limit concerns. All of them if both are absent. */
export interface LimitMatch {
  /** The same for handlers, with their runner if they have one: `send_*`, `python#*`. */
  handler?: string | null;
  /** A name of queues, in which `*` matches any characters. */
  queue?: string | null;
}

/**
 * How many jobs of a key may start per period: a token bucket, from which each start takes one, or as many as
 * the job's `units`.
 */
export interface LimitRate {
  /** How many tokens the bucket holds: `count` if absent. */
  burst?: number | null;
  /** How many tokens are added every `per_seconds`: 1–1,000,000. */
  count: number;
  /** 1–2,678,400 (31 days). */
  per_seconds: number;
}

/** Where a limit comes from. */
export type LimitSource = "api" | "configuration";

/** What happens to a new job whose key of a limit is full. */
export type LimitWhenFull = "wait" | "refuse" | "replace_waiting" | "cancel_running";

/** What an attempt may use. */
export interface Limits {
  /** The size of all artifacts of an attempt together; absent if it may keep none. */
  artifact_bytes?: number | null;
  /** CPU budget; if absent, it follows from the time limit. */
  fuel?: number | null;
  /** How long a cancelled guest may take to stop by itself. */
  grace_ms: number;
  /** How much log is kept. */
  log_bytes_max: number;
  /** Linear memory. */
  memory_bytes: number;
  /** The largest result. */
  result_bytes_max: number;
  /** The size of the scratch directory; absent if it has none. */
  scratch_bytes?: number | null;
  /** The most steps of a job; absent if it may have none. */
  steps_max?: number | null;
  /** Time limit. */
  timeout_ms: number;
}

/** One line of a log. A line break in its message is text. */
export interface Line {
  /** When (RFC 3339). */
  at: string;
  /** Since the start of the attempt. */
  at_ms: number;
  /** During which attempt. */
  attempt: number;
  /** Structured fields; their values are JSON. */
  fields: Record<string, any>;
  /** How severe it is. */
  level: LogLevel;
  /** The message. */
  message: string;
  /** Its position; increases from line to line. */
  seq: number;
  /** Where it comes from. */
  source: LogLineSource;
}

/** How severe a line of a log is. */
export type LogLevel = "trace" | "debug" | "info" | "warn" | "error";

/** Where a line of a log comes from. */
export type LogLineSource = "log" | "stdout" | "stderr" | "host";

/** A batch that was made, with its first jobs. */
export interface MadeBatch {
  batch: Batch;
  /** What became of each job. Those that existed before are not in the batch. */
  jobs: Array<Accepted>;
}

/** The result of changing one page of jobs. */
export interface Many {
  /** How many of them were changed. */
  changed: number;
  /** How many of those were in another state by then, which does not allow the change. */
  in_other_state: number;
  /** How many jobs of this page match. */
  matched: number;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
  /** The first refusals, at most ten. */
  refusals: Array<Refusal>;
  /** How many of them were not changed. */
  refused: number;
  /** How many of the changed jobs are running: a cancel has asked them to stop, and they may complete before. */
  stopping: number;
  /** How many of them had been asked to stop before, and are not counted as changed again. */
  unchanged: number;
}

/** A new token with its text, which is shown only once. */
export interface MintedToken extends Token {
  /** The text, to be sent as `Authorization: Bearer TOKEN`. */
  token: string;
}

/** A node of those that share the store. */
export interface NamedNode {
  /** Its id. */
  id: string;
  /** The name of its machine, if that is known. */
  name?: string | null;
}

/** A batch to make. All or nothing of it is accepted. */
export interface NewBatch {
  /** Its first jobs: at most 1,000. `"#n"` in `depends_on` is entry n (from 0). */
  jobs?: Array<NewJob> | null;
  /** What to call it: 1 to 100 characters. Names need not differ. */
  name?: string | null;
  /** The receivers that are notified when it ends. */
  notify?: Notify | null;
  /** Enqueued when all jobs have ended. */
  on_end?: NewJob | null;
  /** Enqueued when the first job is discarded. */
  on_first_failure?: NewJob | null;
  /**
   * Enqueued when all jobs have completed. Callbacks are called with `{batch, callback, counts, failed}`, and
   * have no params of their own.
   */
  on_success?: NewJob | null;
  /** Whether jobs may be added until it is closed, for at most 7 days. */
  open?: boolean;
  /** How long it is kept after it has ended, at least 1; 604800 (7 days) if absent. */
  retention_seconds?: number | null;
}

/** A job to enqueue. */
export interface NewJob {
  /** Other values that the handler sees. */
  attributes?: Record<string, string> | null;
  /**
   * The batch that counts it: the id of one that is open or that of the job whose handler enqueues it; `#n` for
   * the one that entry n of the same array makes; or an object: a batch that it makes, as its first job. That
   * batch has the id of the job.
   */
  batch?: JobBatch | null;
  /** No attempt after this instant (RFC 3339). */
  deadline?: string | null;
  /** Not before this many seconds from now; excludes `run_at`. */
  delay_seconds?: number | null;
  /**
   * The jobs that must end first: each an id, or `#n` for entry n of the same array, if it must complete;
   * `{"job": ID, "when": "ended"}` if it may end in any way, and `"failed"` if it must be discarded.
   */
  depends_on?: Array<DependsOn>;
  /**
   * Files that its handler reads: names, and for each the id of an upload, or `JOB/NAME` for an artifact of a
   * job of `depends_on`. At most 100.
   */
  files?: Record<string, string>;
  /** The handler that executes it; `python#send_email` is one of a foreign runner. */
  handler: string;
  /** Results that its params get below `/inputs`: names, and the jobs of `depends_on` that return them. */
  inputs?: Record<string, string>;
  /** The most attempts, at least 1; if absent, the handler's, which is 20 unless its manifest says otherwise. */
  max_attempts?: number | null;
  /** The receiver that is notified when it has ended. */
  notify?: Notify | null;
  /** What the handler is called with; `null` if absent. */
  params?: any;
  /** 0 (first) to 9; 5 if absent. */
  priority?: number | null;
  /** The queue it waits in; `default` if absent. */
  queue?: string | null;
  /** How long it is kept if it is discarded, at least 1; if absent everywhere, as long as others. */
  retention_discarded_seconds?: number | null;
  /**
   * How long it is kept after it has ended, at least 1; if absent, as its queue says, else its handler, else
   * 604800 (7 days).
   */
  retention_seconds?: number | null;
  /** Not before this instant (RFC 3339). */
  run_at?: string | null;
  /** The longest an attempt may take; the handler's limit if absent. */
  timeout_seconds?: number | null;
  /** W3C trace context. */
  trace_context?: Record<string, string> | null;
  /** A key with a scope; excludes `unique_key`. */
  unique?: Unique | null;
  /**
   * If a job of the queue has this key and has not ended, it is returned instead. Short for `unique` with the
   * scope `active`.
   */
  unique_key?: string | null;
}

/** The body of an enqueue: one job, or an array of jobs. */
export type NewJobs = NewJob | Array<NewJob>;

/** A limit to set. It needs `concurrency`, `rate`, or both. */
export interface NewLimit {
  /** How many jobs of a key may run concurrently: 1–1,000,000. */
  concurrency?: number | null;
  /** What makes up a job's key. If absent, all jobs have the same key. */
  key?: LimitKeyParts | null;
  /** Which jobs it concerns. */
  match?: LimitMatch | null;
  /** How many jobs of a key may start in a time. */
  rate?: LimitRate | null;
  /**
   * Where a job says how many tokens each start of it takes: a JSON pointer into params such as `/recipients`,
   * or `attributes:NAME`. It is a whole number from 0 to `burst`, 1 if it is not there.
   */
  units?: string | null;
  /** What happens to a new job whose key is full; `wait` if absent. */
  when_full?: LimitWhenFull | null;
}

/** A schedule to set. */
export interface NewSchedule {
  /** What happens to firings missed while no host ran; `last` if absent. */
  catch_up?: ScheduleCatchUp | null;
  /** It does not fire before this (RFC 3339). */
  from?: string | null;
  /** The job to enqueue, without `run_at`, `delay_seconds`, `deadline`, `depends_on`, `unique_key` and `unique`. */
  job: NewJob;
  /** A note for people. */
  note?: string | null;
  /** What happens while an earlier job has not ended; `skip` if absent. */
  overlap?: ScheduleOverlap | null;
  /** Whether it is paused. */
  paused?: boolean;
  /** The longest delay of its firings, always the same for the same name; none if absent. */
  spread?: string | null;
  /** The IANA name of the time zone of cron patterns; `UTC` if absent. */
  time_zone?: string | null;
  /** It does not fire after this (RFC 3339). */
  until?: string | null;
  /** When it fires. */
  when: ScheduleWhen;
  /** Firings older than this are missed; `1h` if absent. */
  window?: string | null;
}

/** A token to make. It may not allow more than the token that makes it. */
export interface NewTokenBody {
  /** The verbs that it allows. */
  allow?: Array<string>;
  /** How long it lasts; 90 days if left out. */
  expires_seconds?: number | null;
  /** The networks it may be used from, such as `10.1.0.0/16`; none for all networks. */
  from?: Array<string>;
  /** Globs of the handlers that it is for; none for all handlers. */
  handlers?: Array<string>;
  /** How many of its jobs may wait or run concurrently. */
  max_waiting?: number | null;
  /** What it is for, in 1 to 128 bytes. */
  name: string;
  /** Globs of the queues that it is for, in which `*` matches any characters; none for all queues. */
  queues?: Array<string>;
  /** How many requests it may make per second. */
  rate?: number | null;
  /** Its verbs are added to those of `allow`. */
  role?: TokenRole | null;
}

/** A node: one host of those that share the store. */
export interface Node {
  /** Where its API listens. */
  address?: string | null;
  /** Whether it is the one that answers. */
  answers: boolean;
  /** How much memory the processes of its cells have, in bytes. */
  cell_memory_bytes?: number | null;
  /** How many cells it keeps. */
  cells?: number | null;
  /** How long ago its last heartbeat was. */
  heartbeat_age_seconds: number;
  /** Its id, which stays the same when it starts again. */
  id: string;
  /** The name of its machine. */
  name?: string | null;
  /** The foreign runners that it is configured for. */
  runners: Array<string>;
  /** What it runs. */
  running: NodeRunning;
  /** How many jobs each of them runs concurrently. */
  slots?: number | null;
  /** When it started (RFC 3339). */
  started_at?: string | null;
  /** Its state. */
  state: NodeState;
  /** The version of the host. */
  version: string;
  /** The wires that it is configured for. */
  wires: Array<string>;
}

/** Whether a node can run a component. */
export interface NodeReadiness {
  /** ready, compiling or failed. */
  component: string;
  /** The node's id. */
  id: string;
  /** The name of its machine. */
  name?: string | null;
  /** Why it cannot run the component. */
  reason?: string | null;
  /** Its state. */
  state: NodeState;
}

/**
 * How many attempts a node runs. Those whose workers hold a lease by heartbeats may continue at any node, and
 * are not counted.
 */
export interface NodeRunning {
  /** All of them. */
  all: number;
  /** In its cells. */
  cells: number;
  /** At foreign runners, by pool. */
  runners: Record<string, number>;
}

/** The state of a node. */
export type NodeState = "live" | "draining" | "drained" | "silent" | "gone";

/** A receiver that is notified of the end of a job or a batch by a signed request. */
export interface Notify {
  /**
   * Which events it gets: `job.completed`, `job.discarded` and `job.cancelled` of a job, `batch.first_failure`,
   * `batch.success` and `batch.end` of a batch; all of them if absent.
   */
  events?: Array<string>;
  /** The name of the secret that signs it, one that this section allows. */
  secret: string;
  /** Where the request goes: a URL that a section `[webhooks.NAME]` of the host's configuration allows. */
  url: string;
}

/** A page of a list. */
export interface AttemptPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Attempt>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface AuditEntryPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<AuditEntry>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface BatchPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Batch>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface ComingFiringPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<ComingFiring>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface FiringPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Firing>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface HandlerPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Handler>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface JobPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Job>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface LimitPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Limit>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface LinePage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Line>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface NodePage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Node>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface QueuePage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Queue>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface RevisionPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Revision>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface RunnerPoolPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<RunnerPool>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface SchedulePage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Schedule>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface StateKeyPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<StateKey>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface StateSpacePage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<StateSpace>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** A page of a list. */
export interface TokenPage {
  /** The items; a page may have fewer than asked for although more follow. */
  items: Array<Token>;
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor?: string | null;
}

/** How to pause a queue. */
export interface PauseQueue {
  /** Whether to make the queue if it does not exist. */
  create?: boolean;
}

/** How a job has to end for one that waits for it to start. */
export type PrerequisiteWhen = "completed" | "ended" | "failed";

/** A new priority. */
export interface PriorityBody {
  /** 0 (first) to 9. */
  priority: number;
}

/** The problem document of a refusal (RFC 9457). */
export interface Problem {
  /** The stable code: see `docs/errors.md`. */
  code: string;
  /** What is wrong with this request. */
  detail: string;
  /** The next step. */
  next: string;
  /** The state of the resource, if that is the reason. */
  state?: string | null;
  /** The HTTP status. */
  status: number;
  /** A few words, the same for every occurrence of the code. */
  title: string;
  /** `urn:host:problem:` and the code. */
  type: string;
}

/** The progress of an attempt. */
export interface Progress {
  /** What it is doing. */
  message: string;
  /** 0 to 100, if the handler knows. */
  percent?: number | null;
}

/** The data of an event `progress`: a running job reported progress. */
export interface ProgressEvent {
  at: string;
  attempt: number;
  job: string;
  message: string;
  percent?: number | null;
}

/** A queue. */
export interface Queue {
  /** How many jobs it has in each state. */
  counts: Record<string, number>;
  /** Its name. */
  name: string;
  /** Whether its jobs do not start. */
  paused: boolean;
}

/** Why a job was not changed. */
export interface Refusal {
  code: string;
  detail: string;
  id: string;
}

/** A handler that is no longer deployed. */
export interface RemovedHandler {
  /** Its name. */
  handler: string;
  /**
   * How many jobs for it have not ended; at most 10,000 are counted. They fail when they start, unless it is
   * deployed again.
   */
  jobs: number;
}

/** A limit that was removed. */
export interface RemovedLimit {
  /** Its name. */
  name: string;
  /** Always true. */
  removed: boolean;
}

/** What became of a queue. */
export interface RemovedQueue {
  /** Its name. */
  name: string;
  /** Always true. */
  removed: boolean;
}

/** A schedule that was removed. */
export interface RemovedSchedule {
  /** Its name. */
  name: string;
  /** Always true. */
  removed: boolean;
}

/** What was removed. */
export interface RemovedState {
  /** Whether there may be more: repeat the request. */
  more: boolean;
  /** How many keys. */
  removed: number;
}

/** A removed component. */
export interface Removed {
  /** Its name. */
  component: string;
  /** Always true. */
  removed: boolean;
}

/** One request to an HTTP server. */
export interface Request {
  /** When it began, from the start of the attempt. */
  at_ms: number;
  /** How long it took. */
  duration_ms: number;
  /** Why there is no answer. */
  error?: RequestErrorWord | null;
  /** `GET`, `POST`, …, unless it is invalid. */
  method?: string | null;
  /** The server, with its scheme and port, unless the URL is invalid. */
  origin?: string | null;
  /** The pattern of the manifest that allowed the path, if it names patterns. */
  path_pattern?: string | null;
  /** The size of the body that the handler got. */
  received_bytes: number;
  /** The size of the body that was sent. */
  sent_bytes: number;
  /** The status of the answer. */
  status?: number | null;
}

/** Why a request to an HTTP server got no answer. */
export type RequestErrorWord = "not_granted" | "address_not_allowed" | "invalid_request" | "request_too_large" | "name_not_found" | "connection_refused" | "certificate_refused" | "response_incomplete" | "response_encoded" | "unreachable" | "timed_out" | "too_large" | "limit_reached" | "unavailable" | "login_refused" | "statement_refused" | "cut";

/** The requests of an attempt to HTTP servers. Paths, queries, headers and bodies are not recorded. */
export interface Requests {
  /** How many of them got no answer. */
  failed: number;
  /** The first 100, in the order in which they began. */
  first: Array<Request>;
  /** The size of all bodies that handlers got. */
  received_bytes: number;
  /** The size of all bodies that were sent. */
  sent_bytes: number;
  /** How many there were. */
  total: number;
}

/** A new start time: exactly one of the two. */
export interface RescheduleBody {
  /** This many seconds from now. */
  delay_seconds?: number | null;
  /** At this instant (RFC 3339), or immediately if it has passed. */
  run_at?: string | null;
}

/** Which runners to restart. */
export interface RestartBody {
  /** The number of one runner, from 1; all of the pool if absent. */
  runner?: number | null;
}

/** How to run a job again. */
export interface RetryBody {
  /** Whether it starts even if jobs it depends on have not ended as it needs. */
  force?: boolean;
}

/** One revision of a component. */
export interface Revision {
  /** The component's name. */
  component: string;
  /** When it was deployed (RFC 3339). */
  deployed_at: string;
  /** Who deployed it: the name of a token, else the principal. */
  deployed_by?: string;
  /** SHA-256 of its bytes, in hex. */
  digest: string;
  /** The names of its handlers. */
  handlers: Array<string>;
  /** What they call it. */
  label?: string | null;
  /** What they say about it. */
  note?: string | null;
  /** 1 for the first. */
  revision: number;
  /** The names of the schedules in its manifest. */
  schedules?: Array<string>;
  /** The id of the key that has signed it, if the host asks for signatures. */
  signed_by?: string | null;
}

/** What the attempts of one revision have cost. */
export interface RevisionCost {
  /** The component. */
  component: string;
  /** Over the last 23 to 24 hours. */
  last_day: Cost;
  /** Over the last 55 to 60 minutes; null if none has ended. */
  last_hour?: Cost | null;
  /** Its revision. */
  revision: number;
}

/** A token that was revoked. */
export interface Revoked {
  /** Its id. */
  id: string;
  /** Always true. */
  revoked: boolean;
}

/** Which revision to go back to. */
export interface RollbackBody {
  /** Accept grants that the current revision does not have. */
  accept_grants?: boolean;
  /** Roll back although params of waiting jobs do not match the schema of that revision. */
  force?: boolean;
  /** Its number. */
  revision: number;
}

/** How to exchange the text of a token. */
export interface RotateBody {
  /** How long the text before still counts; not at all if left out. */
  overlap_seconds?: number | null;
}

/** One foreign runner. */
export interface Runner {
  /** Where it listens, or the Redis from which it takes its jobs. */
  address?: string | null;
  /** What it is doing, if its wire reports that. */
  doing?: string | null;
  /** Its name in attempts: `python/1`. */
  executor: string;
  /** How often in a row it ended without an answer or could not be reached. */
  failures: number;
  /** Attempts in flight. */
  in_flight: number;
  /** Its process, if we started it. */
  pid?: number | null;
  /** Why it takes no work, if known. */
  reason?: string | null;
  /** Its state. */
  state: RunnerState;
}

/** A pool of foreign runners. */
export interface RunnerPool {
  /** Whether it gets the jobs whose handler no component has. */
  default: boolean;
  /** Whether its runners are started by another program; a restart then reconnects. */
  external: boolean;
  /** Attempts in flight at all of them. */
  in_flight: number;
  /** Its name: what stands before `#` in a handler's name. */
  name: string;
  /** The node that has it, if there are others. */
  node?: NamedNode | null;
  /** The queues whose jobs all go to it. */
  queues: Array<string>;
  /** Whether its node can restart its runners or reconnect to them. */
  restartable: boolean;
  /** Its runners. */
  runners: Array<Runner>;
  /** How many more it has at another node, which lists only the first 128. */
  runners_omitted?: number;
  /** How many of its runners take work. */
  up: number;
  /** Its wire. */
  wire: string;
}

/** The state of a foreign runner. */
export type RunnerState = "down" | "starting" | "up" | "draining" | "ending";

/** A schedule. */
export interface Schedule {
  /** How often each thing has happened. */
  counts: FiringCounts;
  /** When it fires next: the nominal time with its spread. */
  fires_at?: string | null;
  /** How many firings wait for earlier jobs to end. */
  held: number;
  /** Its name. */
  name: string;
  /** The next nominal time (RFC 3339). */
  next?: string | null;
  /** Why the host paused it: its times can no longer be found. */
  paused_because?: string | null;
  /** The latest nominal time whose job was enqueued. */
  previous?: string | null;
  /** How it was set. */
  schedule: NewSchedule;
  /** Where it comes from: `api`, `configuration`, or `component:NAME`. */
  source: string;
  /** `params` if its job has params that the caller may not see. That needs the verb `read_payload`. */
  withheld?: Array<Withheld> | null;
}

/** What happens to firings that passed while no host was there. */
export type ScheduleCatchUp = "none" | "last" | "all";

/** What happens to a firing while an earlier job of the schedule has not ended. */
export type ScheduleOverlap = "skip" | "queue_one" | "queue_all" | "cancel" | "allow";

/** One pattern or several. */
export type SchedulePatterns = string | Array<string>;

/** When a schedule fires: `cron` or `every`. */
export interface ScheduleWhen {
  /**
   * At the times that a pattern, or any of several, has in the schedule's time zone: five fields, or six with
   * seconds first; `@daily` and the like.
   */
  cron?: SchedulePatterns | null;
  /** At the multiples of an interval, such as `10m`: at least a second. */
  every?: string | null;
  /** How much later than the multiples, such as `2m`. */
  phase?: string | null;
}

/** A value to write: one of the two. */
export interface SetStateBody {
  /** As Base64. */
  base64?: string | null;
  /** As text. */
  value?: string | null;
}

/** How much of its share of a node a token uses. */
export interface Share {
  /** The memory that bodies of its requests use, in bytes; the first 16 KiB of each are free. */
  body_bytes: number;
  /** The most that they may use. */
  body_bytes_max: number;
  /** How many streams of events it has open. */
  streams: number;
  /** The most that it may have open. */
  streams_max: number;
}

/** How values are distributed. The percentiles are at most an eighth above the exact ones. */
export interface Spread {
  /** The largest value. */
  max: number;
  /** Half of the values are not above it. */
  p50: number;
  /** 99 of 100 values are not above it. */
  p99: number;
}

/** State that a handler may keep. */
export interface StateGrant {
  /** The largest size of a space to which the handler may add, in KiB. */
  quota_kib: number;
  /** The spaces that it shares with other handlers. */
  shared: Array<string>;
}

/** A key of state. */
export interface StateKey {
  /** The length of its value. */
  bytes: number;
  /** The key. */
  key: string;
  /** When it was written last (RFC 3339). */
  updated_at: string;
}

/** A space of state. */
export interface StateSpace {
  /** The bytes of its keys and values, and 64 for each key. */
  bytes: number;
  /** How many keys it has. */
  keys: number;
  /** `handler:NAME`, the space of one handler, or `shared:NAME`. */
  space: string;
}

/** A key of state with its value. */
export interface StateValue {
  /** The value as Base64, if it is not. */
  base64?: string | null;
  /** The key. */
  key: string;
  /** When it was written last (RFC 3339). */
  updated_at: string;
  /** The value, if it is UTF-8. */
  value?: string | null;
}

/** Connections to one server. */
export interface TcpGrant {
  /** To which database. */
  database?: string | null;
  /** The protocol in which the host signs in: `postgres`, `redis` or `smtp`; null if it does not. */
  login?: string | null;
  /** The name for SQL; null for a connection of the handler's own. */
  name?: string | null;
  /** The names of secrets in the password. */
  secrets: Array<string>;
  /** When the host begins TLS: `none`, `direct`, `postgres`, `smtp` or `imap`. */
  tls: string;
  /** The server and its port, as `db.internal:5432`. */
  to: string;
  /** As whom. */
  user?: string | null;
}

/** A token, without its text. */
export interface Token {
  /** When it was made (RFC 3339). */
  created_at: string;
  /** The principal that made it. */
  created_by: string;
  /** When it ends. */
  expires_at?: string | null;
  /** The networks it may be used from; none for all networks. */
  from: Array<string>;
  /** Globs of the handlers that it is for; none for all handlers. */
  handlers: Array<string>;
  /** Its id, which is the part between `hst_` and the next `_`. */
  id: string;
  /** When it was used last, up to a minute late. */
  last_used_at?: string | null;
  /** How many of its jobs may wait or run concurrently. */
  max_waiting?: number | null;
  /** What it is for. */
  name: string;
  /** Until when the text before the last rotation counts. */
  overlaps_until?: string | null;
  /** Globs of the queues that it is for; none for all queues. */
  queues: Array<string>;
  /** How many requests it may make per second. */
  rate?: number | null;
  /** The verbs that it allows. */
  verbs: Array<string>;
}

/** A named set of verbs. */
export type TokenRole = "producer" | "viewer" | "operator" | "deployer" | "admin";

/** How many jobs came and went, and how long they took. A node counts what it does itself, since its start. */
export interface Trend {
  /** The steps, the oldest first. The last one is not over. */
  points: Array<TrendPoint>;
  /** The length of a step. */
  step_seconds: number;
}

/** One step. */
export interface TrendPoint {
  /** When it began (RFC 3339). */
  at: string;
  /** Jobs that were cancelled. */
  cancelled: number;
  /** Jobs that completed. */
  completed: number;
  /** Jobs that were discarded. */
  discarded: number;
  /** Jobs that were accepted. */
  enqueued: number;
  /** Attempts that failed. */
  failures: number;
  /** How long an attempt took. */
  ran_ms: Spread;
  /** From when a job could start to its first attempt. */
  waited_ms: Spread;
  /** Jobs of all queues that waited for a slot, at the end of the step; absent if nothing has counted them. */
  waiting?: number | null;
}

/** The jobs that were enqueued. */
export interface TriggeredJobs {
  /** Their ids, in the order of their nominal times. */
  jobs: Array<string>;
}

/** A key that one job of a queue has. */
export interface Unique {
  /** The key, 1 to 256 bytes. */
  key: string;
  /** With `push_back`: later jobs with the key delay this one no longer than this after it was enqueued. */
  max_delay_seconds?: number | null;
  /**
   * What becomes of that job if none of its attempts has begun; `keep` if absent. `replace`: it gets the params
   * of this one. `push_back`: that, and it starts when this one would. Only a job of the same handler and
   * principal changes.
   */
  on_conflict?: UniqueOnConflict | null;
  /** Which earlier job with the key counts as this one; `active` if absent. */
  scope?: UniqueScope;
}

/** What becomes of an earlier job with the same unique key. */
export type UniqueOnConflict = "keep" | "replace" | "push_back";

/** Which earlier job with the same key counts as the new one. */
export type UniqueScope = "active" | "retained" | { seconds: number };

/** A file that was sent for jobs to read. */
export interface Upload {
  /** Its length. */
  bytes: number;
  /** What it was sent as. */
  content_type: string;
  /** When new jobs may no longer be given it (RFC 3339). It is kept as long as a job that was. */
  expires_at: string;
  /** Its id, which `files` of a new job names. */
  id: string;
  /** The SHA-256 of its content, in hexadecimal digits. */
  sha256: string;
}

/** A webhook to try. */
export interface WebhookTest {
  /** The name of the secret that signs it. */
  secret: string;
  /** Where the request goes. */
  url: string;
}

/** A part of a document that the caller may not see. */
export type Withheld = "params" | "result" | "artifacts" | "failure" | "reason" | "keys" | "waits_because" | "depends_on" | "inputs" | "files";

/** What a foreign worker reports about itself and the end of its attempt, as far as its protocol has it. */
export interface WorkerReport {
  /** When the attempt ended, by the worker's clock. */
  ended_at?: string | null;
  /** The name that it gives itself. */
  name?: string | null;
  /** How many bytes the attempt read. */
  read_bytes?: number | null;
  /** How many bytes the attempt wrote. */
  written_bytes?: number | null;
}

export interface HostListAuditQuery {
  /** From this instant on (RFC 3339). */
  since?: string;
  /** Only those of this principal: `token:ID`, the name of a token, `uid:NUMBER` or `host`. */
  principal?: string;
  /** Only those with this verb. */
  verb?: string;
  /** How many entries a page has at most, 1–1000; 100 if left out. */
  limit?: number;
  /** Where the page before ended. */
  cursor?: string;
}

export interface BatchesListQuery {
  /** At most this many, 1 to 1,000; 100 if absent. */
  limit?: number;
  /** The `next_cursor` of the answer before. */
  cursor?: string;
}

export interface JobsListCausesQuery {
  /** Only jobs in this queue. */
  queue?: string;
  /** Only jobs for this handler. */
  handler?: string;
  /** Only jobs that were enqueued at this instant or later (RFC 3339). */
  since?: string;
  /** Only the cause with this fingerprint. */
  fingerprint?: string;
}

export interface JobsListQuery {
  /**
   * A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a key
   * must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
   * params and words. Further parameters add to it.
   */
  q?: string;
  /** Only jobs in this queue. */
  queue?: string;
  /** Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters. */
  handler?: string;
  /** Only jobs that were enqueued at this instant or later (RFC 3339). */
  since?: string;
  /** Only jobs that were enqueued before this instant (RFC 3339). */
  until?: string;
  /** Only jobs whose id starts with this prefix. */
  id?: string;
  /**
   * Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
   * handler's own name for an error, `user_kind` of a failure.
   */
  failure?: string;
  /** Only jobs that came in over this wire; `http` is this API. */
  wire?: string;
  /** Only jobs with this unique key. */
  unique_key?: string;
  /** Only jobs with this attribute, as `KEY=VALUE`. */
  attribute?: string;
  /** Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`. */
  param?: string;
  /** Only jobs that failed for this cause: a `fingerprint` of the list of failures. */
  fingerprint?: string;
  /** Only jobs that this batch counts. */
  batch?: string;
  /** Only jobs in this state. */
  state?: JobState;
  /** `newest` or `oldest` first; `newest` if absent. */
  sort?: "newest" | "oldest";
  /** At most this many, 1 to 1,000; 100 if absent. */
  limit?: number;
  /** The `next_cursor` of the answer before. */
  cursor?: number;
}

export interface JobsCancelAllQuery {
  /**
   * A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a key
   * must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
   * params and words. Further parameters add to it.
   */
  q?: string;
  /** Only jobs in this queue. */
  queue?: string;
  /** Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters. */
  handler?: string;
  /** Only jobs that were enqueued at this instant or later (RFC 3339). */
  since?: string;
  /** Only jobs that were enqueued before this instant (RFC 3339). */
  until?: string;
  /** Only jobs whose id starts with this prefix. */
  id?: string;
  /**
   * Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
   * handler's own name for an error, `user_kind` of a failure.
   */
  failure?: string;
  /** Only jobs that came in over this wire; `http` is this API. */
  wire?: string;
  /** Only jobs with this unique key. */
  unique_key?: string;
  /** Only jobs with this attribute, as `KEY=VALUE`. */
  attribute?: string;
  /** Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`. */
  param?: string;
  /** Only jobs that failed for this cause: a `fingerprint` of the list of failures. */
  fingerprint?: string;
  /** Only jobs that this batch counts. */
  batch?: string;
  /** Only jobs in this state. */
  state?: JobState;
  /** `newest` or `oldest` first; `newest` if absent. */
  sort?: "newest" | "oldest";
  /** At most this many, 1 to 1,000; 100 if absent. */
  limit?: number;
  /** The `next_cursor` of the answer before. */
  cursor?: number;
}

export interface JobsCountQuery {
  /**
   * A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a key
   * must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
   * params and words. Further parameters add to it.
   */
  q?: string;
  /** Only jobs in this queue. */
  queue?: string;
  /** Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters. */
  handler?: string;
  /** Only jobs that were enqueued at this instant or later (RFC 3339). */
  since?: string;
  /** Only jobs that were enqueued before this instant (RFC 3339). */
  until?: string;
  /** Only jobs whose id starts with this prefix. */
  id?: string;
  /**
   * Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
   * handler's own name for an error, `user_kind` of a failure.
   */
  failure?: string;
  /** Only jobs that came in over this wire; `http` is this API. */
  wire?: string;
  /** Only jobs with this unique key. */
  unique_key?: string;
  /** Only jobs with this attribute, as `KEY=VALUE`. */
  attribute?: string;
  /** Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`. */
  param?: string;
  /** Only jobs that failed for this cause: a `fingerprint` of the list of failures. */
  fingerprint?: string;
  /** Only jobs that this batch counts. */
  batch?: string;
  /** Only jobs in this state. */
  state?: JobState;
  /** `newest` or `oldest` first; `newest` if absent. */
  sort?: "newest" | "oldest";
  /** At most this many, 1 to 1,000; 100 if absent. */
  limit?: number;
  /** The `next_cursor` of the answer before. */
  cursor?: number;
}

export interface JobsSetPriorityOfAllQuery {
  /**
   * A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a key
   * must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
   * params and words. Further parameters add to it.
   */
  q?: string;
  /** Only jobs in this queue. */
  queue?: string;
  /** Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters. */
  handler?: string;
  /** Only jobs that were enqueued at this instant or later (RFC 3339). */
  since?: string;
  /** Only jobs that were enqueued before this instant (RFC 3339). */
  until?: string;
  /** Only jobs whose id starts with this prefix. */
  id?: string;
  /**
   * Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
   * handler's own name for an error, `user_kind` of a failure.
   */
  failure?: string;
  /** Only jobs that came in over this wire; `http` is this API. */
  wire?: string;
  /** Only jobs with this unique key. */
  unique_key?: string;
  /** Only jobs with this attribute, as `KEY=VALUE`. */
  attribute?: string;
  /** Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`. */
  param?: string;
  /** Only jobs that failed for this cause: a `fingerprint` of the list of failures. */
  fingerprint?: string;
  /** Only jobs that this batch counts. */
  batch?: string;
  /** Only jobs in this state. */
  state?: JobState;
  /** `newest` or `oldest` first; `newest` if absent. */
  sort?: "newest" | "oldest";
  /** At most this many, 1 to 1,000; 100 if absent. */
  limit?: number;
  /** The `next_cursor` of the answer before. */
  cursor?: number;
}

export interface JobsPurgeAllQuery {
  /**
   * A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a key
   * must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
   * params and words. Further parameters add to it.
   */
  q?: string;
  /** Only jobs in this queue. */
  queue?: string;
  /** Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters. */
  handler?: string;
  /** Only jobs that were enqueued at this instant or later (RFC 3339). */
  since?: string;
  /** Only jobs that were enqueued before this instant (RFC 3339). */
  until?: string;
  /** Only jobs whose id starts with this prefix. */
  id?: string;
  /**
   * Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
   * handler's own name for an error, `user_kind` of a failure.
   */
  failure?: string;
  /** Only jobs that came in over this wire; `http` is this API. */
  wire?: string;
  /** Only jobs with this unique key. */
  unique_key?: string;
  /** Only jobs with this attribute, as `KEY=VALUE`. */
  attribute?: string;
  /** Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`. */
  param?: string;
  /** Only jobs that failed for this cause: a `fingerprint` of the list of failures. */
  fingerprint?: string;
  /** Only jobs that this batch counts. */
  batch?: string;
  /** Only jobs in this state. */
  state?: JobState;
  /** `newest` or `oldest` first; `newest` if absent. */
  sort?: "newest" | "oldest";
  /** At most this many, 1 to 1,000; 100 if absent. */
  limit?: number;
  /** The `next_cursor` of the answer before. */
  cursor?: number;
}

export interface JobsRetryAllQuery {
  /**
   * A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a key
   * must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
   * params and words. Further parameters add to it.
   */
  q?: string;
  /** Only jobs in this queue. */
  queue?: string;
  /** Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters. */
  handler?: string;
  /** Only jobs that were enqueued at this instant or later (RFC 3339). */
  since?: string;
  /** Only jobs that were enqueued before this instant (RFC 3339). */
  until?: string;
  /** Only jobs whose id starts with this prefix. */
  id?: string;
  /**
   * Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
   * handler's own name for an error, `user_kind` of a failure.
   */
  failure?: string;
  /** Only jobs that came in over this wire; `http` is this API. */
  wire?: string;
  /** Only jobs with this unique key. */
  unique_key?: string;
  /** Only jobs with this attribute, as `KEY=VALUE`. */
  attribute?: string;
  /** Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`. */
  param?: string;
  /** Only jobs that failed for this cause: a `fingerprint` of the list of failures. */
  fingerprint?: string;
  /** Only jobs that this batch counts. */
  batch?: string;
  /** Only jobs in this state. */
  state?: JobState;
  /** `newest` or `oldest` first; `newest` if absent. */
  sort?: "newest" | "oldest";
  /** At most this many, 1 to 1,000; 100 if absent. */
  limit?: number;
  /** The `next_cursor` of the answer before. */
  cursor?: number;
}

export interface JobsAttemptsQuery {
  /** At most this many, 1 to 1,000; 100 if absent. */
  limit?: number;
  /** Items behind the one with this number: a `next_cursor`, or the last one seen, to follow the list. */
  cursor?: number;
}

export interface JobsLogsQuery {
  /** At most this many, 1 to 1,000; 100 if absent. */
  limit?: number;
  /** Items behind the one with this number: a `next_cursor`, or the last one seen, to follow the list. */
  cursor?: number;
}

export interface JobsWaitQuery {
  /** At most 300; 30 if absent. */
  timeout_seconds?: number;
}

export interface LimitsShowQuery {
  /** 1–1000; 20 if absent. */
  keys?: number;
}

export interface RunnersShowQuery {
  /** The node's id, the start of it, or the name of its machine. */
  node?: string;
}

export interface SchedulesListQuery {
  /** 1–1000; 100 if absent. */
  limit?: number;
  /** The `next_cursor` of the page before. */
  cursor?: string;
}

export interface SchedulesComingFiringsQuery {
  /** 1–1000; 20 if absent. */
  count?: number;
}

export interface StateSpacesQuery {
  /** `next_cursor` of the page before. */
  cursor?: string;
  /** At most 1,000; 100 if absent. */
  limit?: number;
}

export interface StateRemoveKeysQuery {
  /** Only keys that start with this. */
  prefix?: string;
}

export interface StateKeysQuery {
  /** Only keys that start with this. */
  prefix?: string;
  /** `next_cursor` of the page before. */
  cursor?: string;
  /** At most 1,000; 100 if absent. */
  limit?: number;
}

export interface StateRemoveQuery {
  /** The key. */
  key: string;
}

export interface StateValueQuery {
  /** The key. */
  key: string;
}

export interface StateSetQuery {
  /** The key. */
  key: string;
}

export interface JobsShowTrendsQuery {
  /** `hour`, `day` or `week`; `hour` if absent. */
  span?: "hour" | "day" | "week";
}

/** `client.api.jobs` */
export interface JobsApi {
  /**
   * Shows why the newest dead letters were discarded: failures of a handler with the same kind and the same
   * message, but for numbers, ids and quotations, count as one cause.
   */
  listCauses(query?: JobsListCausesQuery): Promise<Causes>;
  /** Lists jobs that match, the newest first if `sort` does not say otherwise. */
  list(query?: JobsListQuery): Promise<JobPage>;
  /** Enqueues one job or an array of jobs, all or none; or lines of jobs, each alone. */
  enqueue(body: NewJobs): Promise<AcceptedJobs>;
  /** Asks for jobs to be stopped: one page of those that match. `state` is required. */
  cancelAll(body?: CancelBody, query?: JobsCancelAllQuery): Promise<Many>;
  /**
   * Counts the jobs that match. A request examines a bounded number of jobs: if `complete` is false, there are
   * at least as many, and a request with `next_cursor` as `cursor` counts on. `limit` is not for counts.
   */
  count(query?: JobsCountQuery): Promise<Count>;
  /**
   * Gives jobs that have not ended another priority, which holds from their next attempt: one page of those that
   * match. `state` is required.
   */
  setPriorityOfAll(body: PriorityBody, query?: JobsSetPriorityOfAllQuery): Promise<Many>;
  /** Forgets jobs that have ended: one page of those that match. `state` is required. */
  purgeAll(query?: JobsPurgeAllQuery): Promise<Many>;
  /** Runs discarded or cancelled jobs again: one page of those that match. `state` is required. */
  retryAll(body?: RetryBody, query?: JobsRetryAllQuery): Promise<Many>;
  /** Shows all of a job. */
  show(id: string): Promise<Job>;
  /** Shows the attempts of a job, first to last, and the one that runs. Of many, the latest 100 are kept at least. */
  attempts(id: string, query?: JobsAttemptsQuery): Promise<AttemptPage>;
  /** Asks for a job to be stopped. */
  cancel(id: string, body?: CancelBody): Promise<Cancel>;
  /** Shows what a job has logged, oldest first. */
  logs(id: string, query?: JobsLogsQuery): Promise<LinePage>;
  /** Gives a job that has not ended another priority, which holds from its next attempt. */
  setPriority(id: string, body: PriorityBody): Promise<Job>;
  /** Forgets a job that has ended, with its result and attempts, and shows what it was. */
  purge(id: string): Promise<Job>;
  /** Moves the start of a job that waits. */
  reschedule(id: string, body: RescheduleBody): Promise<Job>;
  /**
   * Runs a discarded or cancelled job again. A deadline that has passed is removed, and `removed_deadline` shows
   * it. The job is pending while jobs that it depends on have not ended as it needs. With `force` it waits for
   * none of them, and neither does a job that is pending already.
   */
  retry(id: string, body?: RetryBody): Promise<Job>;
  /** Waits until a job ends, at most as long as asked for, and shows it. */
  wait(id: string, query?: JobsWaitQuery): Promise<Job>;
  /** Shows how many jobs came and went at this node, and how long they waited and ran, step by step. */
  showTrends(query?: JobsShowTrendsQuery): Promise<Trend>;
}

/** `client.api.batches` */
export interface BatchesApi {
  /** Lists the batches, newest first. */
  list(query?: BatchesListQuery): Promise<BatchPage>;
  /** Makes a batch with its first jobs, all or nothing. */
  newBatch(body: NewBatch): Promise<MadeBatch>;
  /** Shows one batch. */
  showBatch(id: string): Promise<Batch>;
  /** Closes a batch and cancels its jobs. Large batches are cancelled in slices, so some jobs may still start. */
  cancelBatch(id: string, body?: BatchCancel): Promise<Batch>;
  /** Closes a batch: no more jobs may be added, except by its own jobs. */
  closeBatch(id: string): Promise<Batch>;
  /** Adds one job or an array of jobs to an open batch, all or none. */
  addToBatch(id: string, body: NewJobs): Promise<Array<Accepted>>;
}

/** `client.api.queues` */
export interface QueuesApi {
  /** Lists all queues that have or had jobs or are paused. */
  list(): Promise<QueuePage>;
  /** Removes a queue that has no jobs. */
  remove(name: string): Promise<RemovedQueue>;
  /** Shows one queue. */
  show(name: string): Promise<Queue>;
  /** Starts no more jobs of a queue; running ones continue. */
  pause(name: string, body?: PauseQueue): Promise<Queue>;
  /** Starts jobs of a queue again. */
  resume(name: string): Promise<Queue>;
}

/** `client.api.limits` */
export interface LimitsApi {
  /** Lists the limits by name. */
  list(): Promise<LimitPage>;
  /** Removes a limit. Jobs no longer wait for it. */
  remove(name: string): Promise<RemovedLimit>;
  /** Shows a limit with its fullest keys. */
  show(name: string, query?: LimitsShowQuery): Promise<Limit>;
  /** Sets a limit, new or in place of the one with its name. Jobs that were enqueued before keep their keys. */
  set(name: string, body: NewLimit): Promise<Limit>;
}

/** `client.api.schedules` */
export interface SchedulesApi {
  /** Lists the schedules by name. */
  list(query?: SchedulesListQuery): Promise<SchedulePage>;
  /** Removes a schedule. The jobs that it has enqueued stay. */
  remove(name: string): Promise<RemovedSchedule>;
  /** Shows one schedule. */
  show(name: string): Promise<Schedule>;
  /** Sets a schedule, new or in place of the one with its name. */
  set(name: string, body: NewSchedule): Promise<Schedule>;
  /**
   * Enqueues a job for each nominal time of a schedule in a range, even if earlier ones run: at most 1,000, all
   * or none.
   */
  backfill(name: string, body: BackfillBody): Promise<TriggeredJobs>;
  /** Shows what became of the latest firings of a schedule, newest first: at most 100. */
  latestFirings(name: string): Promise<FiringPage>;
  /** Shows the times at which a schedule will fire. */
  comingFirings(name: string, query?: SchedulesComingFiringsQuery): Promise<ComingFiringPage>;
  /** Stops a schedule from firing until it is resumed. Nominal times in between are not made up for. */
  pause(name: string): Promise<Schedule>;
  /** Lets a paused schedule fire again. */
  resume(name: string): Promise<Schedule>;
  /** Enqueues the job of a schedule now, even if an earlier one runs. */
  trigger(name: string): Promise<TriggeredJobs>;
}

/** `client.api.state` */
export interface StateApi {
  /** Lists the spaces that have state. */
  spaces(query?: StateSpacesQuery): Promise<StateSpacePage>;
  /** Removes the keys of a space, at most 1,000. */
  removeKeys(space: string, query?: StateRemoveKeysQuery): Promise<RemovedState>;
  /** Lists the keys of a space, in the order of their bytes. */
  keys(space: string, query?: StateKeysQuery): Promise<StateKeyPage>;
  /** Removes a key. */
  remove(space: string, query: StateRemoveQuery): Promise<RemovedState>;
  /** Shows the value of a key. */
  value(space: string, query: StateValueQuery): Promise<StateValue>;
  /** Writes a key. The quotas of handlers do not count. */
  set(space: string, body: SetStateBody, query: StateSetQuery): Promise<StateValue>;
}

/** `client.api.handlers` */
export interface HandlersApi {
  /** Lists all deployed handlers. */
  list(): Promise<HandlerPage>;
  /** Shows one handler with its schemas. */
  show(name: string): Promise<Handler>;
}

/** `client.api.components` */
export interface ComponentsApi {
  /** Lists the current revisions of all components. */
  list(): Promise<RevisionPage>;
  /** Forgets a component that no job needs. */
  remove(name: string): Promise<Removed>;
  /** Shows all revisions of a component. */
  show(name: string): Promise<Component>;
  /** Goes back to an earlier revision. */
  rollback(name: string, body: RollbackBody): Promise<Deployed>;
}

/** `client.api.runners` */
export interface RunnersApi {
  /**
   * Lists the pools of foreign runners, those of all nodes that live. What other nodes have is as they reported
   * it with their last heartbeat.
   */
  list(): Promise<RunnerPoolPage>;
  /** Shows one pool of foreign runners: that of this host if it has one of the name, else that of another node. */
  show(name: string, query?: RunnersShowQuery): Promise<RunnerPool>;
  /** Restarts the runners of a pool of this host, each once its attempts have ended; until then it takes no others. */
  restart(name: string, body?: RestartBody): Promise<RunnerPool>;
}

/** `client.api.nodes` */
export interface NodesApi {
  /** Lists the nodes that share the store, also those that have gone in the last day. */
  list(): Promise<NodePage>;
  /** Shows one node. */
  show(id: string): Promise<Node>;
  /**
   * Lets a node start no more jobs. What runs there may end; other nodes run the rest. It stays so when the node
   * starts again.
   */
  drain(id: string): Promise<AskedNode>;
  /** Lets a node start jobs again. */
  resume(id: string): Promise<AskedNode>;
}

/** `client.api.tokens` */
export interface TokensApi {
  /** Lists the tokens that allow no more than the caller may do. */
  list(): Promise<TokenPage>;
  /** Makes a token. The answer has its text, which is kept nowhere. */
  create(body: NewTokenBody): Promise<MintedToken>;
  /** Shows who calls, what it may do and what is left of its quotas. */
  showCaller(): Promise<Caller>;
  /** Revokes a token. From then on it is refused, and its open requests end. */
  revoke(id: string): Promise<Revoked>;
  /** Shows one token. */
  show(id: string): Promise<Token>;
  /** Gives a token another text. The one before counts as long as asked for. */
  rotate(id: string, body?: RotateBody): Promise<MintedToken>;
}

/** `client.api.webhooks` */
export interface WebhooksApi {
  /** Enqueues a delivery of an empty event, to see whether a receiver answers. It is a job of the queue `webhooks`. */
  test(body: WebhookTest): Promise<Accepted>;
}

/** `client.api.host` */
export interface HostApi {
  /** Lists entries of the audit, oldest first. A page may be empty although more follow. */
  listAudit(query?: HostListAuditQuery): Promise<AuditEntryPage>;
  /** Tells that the host lives. */
  alive(): Promise<Health>;
  /**
   * Tells whether the host takes work: its store answers, has room and is where it was, and it has not been
   * asked to stop or to drain.
   */
  ready(): Promise<Health>;
}

/** All operations of the API, in groups. */
export interface Api {
  jobs: JobsApi;
  batches: BatchesApi;
  queues: QueuesApi;
  limits: LimitsApi;
  schedules: SchedulesApi;
  state: StateApi;
  handlers: HandlersApi;
  components: ComponentsApi;
  runners: RunnersApi;
  nodes: NodesApi;
  tokens: TokensApi;
  webhooks: WebhooksApi;
  host: HostApi;
}
