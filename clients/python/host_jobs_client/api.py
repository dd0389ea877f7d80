"""The documents and the operations of the API. `clients/generate.py` writes this file from the OpenAPI document."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Literal, NotRequired, TypeAlias, TypedDict, Unpack


class Group:
    """Operations on one kind of thing."""

    def __init__(self, call: Callable[..., Any]):
        self._call = call


class Accepted(TypedDict):
    """The result for one job of a request."""

    existing: bool
    """Whether it was there before."""
    existing_params_differ: NotRequired[bool | None]
    """Present and true if it was there before with other params than these, and the caller may see the params of
    that job.
    """
    id: str
    """The job that answers the request: the new one, or the one that has its unique key."""
    state: JobState
    """That job's state."""


AcceptedJobs: TypeAlias = 'Accepted | List[Accepted]'
"""The answer to an enqueue: that for one job, or an array for an array."""


class Artifact(TypedDict):
    """A file that a job has produced."""

    bytes: int
    """Its length."""
    content_type: str
    """What its handler says that it is."""
    name: str
    """Its name."""
    sha256: str
    """The SHA-256 of its content, in hexadecimal digits."""


class Node(TypedDict):
    """A node: one host of those that share the store."""

    address: NotRequired[str | None]
    """Where its API listens."""
    answers: bool
    """Whether it is the one that answers."""
    cell_memory_bytes: NotRequired[int | None]
    """How much memory the processes of its cells have, in bytes."""
    cells: NotRequired[int | None]
    """How many cells it keeps."""
    heartbeat_age_seconds: float
    """How long ago its last heartbeat was."""
    id: str
    """Its id, which stays the same when it starts again."""
    name: NotRequired[str | None]
    """The name of its machine."""
    runners: List[str]
    """The foreign runners that it is configured for."""
    running: NodeRunning
    """What it runs."""
    slots: NotRequired[int | None]
    """How many jobs each of them runs concurrently."""
    started_at: NotRequired[str | None]
    """When it started (RFC 3339)."""
    state: NodeState
    """Its state."""
    version: str
    """The version of the host."""
    wires: List[str]
    """The wires that it is configured for."""


class AskedNode(Node):
    """A node that was asked to start no more jobs, or to start some again."""

    note: NotRequired[str | None]
    """What that means for waiting jobs, if no node starts any."""
    others_live: int
    """How many other nodes start jobs."""


class Attempt(TypedDict):
    """An attempt. One that is running has no end yet; its numbers are the latest reported."""

    component: NotRequired[str | None]
    """The component it was executed with."""
    cpu_ms: float
    """CPU time of the guest and of the host calls made for it."""
    duration_ms: NotRequired[int | None]
    """From claim to recorded end."""
    executor: str
    """Who executed it: `cell-3`, `python/1`."""
    failure: NotRequired[Failure | None]
    """Why, if it did not complete."""
    finished_at: NotRequired[str | None]
    """When its end was recorded."""
    fuel: int
    """Fuel, in wasmtime's units."""
    node: NotRequired[NamedNode | None]
    """The node that runs it, while it runs, if other nodes may share the store."""
    number: int
    """1 for the first."""
    outcome: AttemptOutcome
    """How it ended, or that it runs."""
    peak_memory_bytes: int
    """Its peak linear memory."""
    requests: NotRequired[Requests | None]
    """Its requests to HTTP servers, once it has ended, if it made some."""
    revision: NotRequired[int | None]
    """Which revision of it."""
    started_at: str
    """When it was claimed."""
    withheld: NotRequired[List[Withheld] | None]
    """`failure` if the caller may not see more of it than its kind."""
    worker: NotRequired[WorkerReport | None]
    """What a foreign worker reports about itself and the end of the attempt."""


AttemptOutcome: TypeAlias = 'Literal["running", "completed", "failed", "retry", "cancelled", "lost"]'
"""How an attempt ended, or that it runs."""


class AuditEntry(TypedDict):
    """One entry. `hash` is the SHA-256 of `previous`, a line break, `number`, a line break, and the text of
    `record`.
    """

    hash: str
    """Its own hash."""
    number: int
    """Its place, from 1."""
    previous: str
    """The hash of the entry before it, in hexadecimal digits; zeros for the first."""
    record: AuditRecord
    """What happened."""


class AuditRecord(TypedDict):
    """What happened."""

    address: NotRequired[str | None]
    """From which address."""
    at: NotRequired[str]
    """When (RFC 3339)."""
    detail: NotRequired[str | None]
    """More about what was asked for."""
    object: NotRequired[str]
    """Of what."""
    outcome: NotRequired[str]
    """`done`, or why not."""
    principal: NotRequired[str]
    """Who asked: `token:ID`, `uid:NUMBER`, `host`, or empty if that is unknown."""
    request: NotRequired[str | None]
    """The id of the request."""
    times: NotRequired[int]
    """How often, if the entry covers several."""
    token_name: NotRequired[str | None]
    """The name of the principal's token."""
    verb: NotRequired[str]
    """What was asked for."""


BackfillBody = TypedDict(
    "BackfillBody",
    {
        'from': 'str',
        'until': 'str',
    },
)
"""The nominal times to enqueue jobs for."""


class Backoff(TypedDict):
    """The pauses between the attempts of a job. Each is up to 20 % shorter or longer."""

    base_ms: int
    """The pause after the first attempt; it doubles with each further one."""
    max_ms: int
    """The longest pause."""


class Batch(TypedDict):
    """A batch of jobs."""

    callbacks: List[BatchCallbackJob]
    cancel_reason: NotRequired[str | None]
    """The reason given for the cancel."""
    cancel_requested_at: NotRequired[str | None]
    """When its cancel was requested."""
    closes_at: NotRequired[str | None]
    """When it is closed, if it is not closed earlier."""
    counts: BatchCounts
    created_at: str
    """When it was made (RFC 3339)."""
    created_by: NotRequired[str | None]
    """The principal that made it, if that is known."""
    ended_at: NotRequired[str | None]
    """When all of its jobs had ended. Jobs may be retried later."""
    id: str
    kept_until: NotRequired[str | None]
    """When it is forgotten, if it has ended."""
    name: NotRequired[str | None]
    """What it is called."""
    state: BatchState
    """`open`: jobs may be added. `closed`: its jobs have not all ended. `ended`: they have."""
    waits_because: NotRequired[str | None]
    """What it waits for."""


BatchCallback: TypeAlias = 'Literal["on_first_failure", "on_success", "on_end"]'
"""What a callback of a batch waits for."""


class BatchCallbackJob(TypedDict):
    """A callback of a batch."""

    enqueued: bool
    """Whether its job was enqueued."""
    handler: str
    job: str
    """The id of its job, which exists once it is enqueued."""
    on: BatchCallback
    """What it waits for."""
    queue: str


class BatchCancel(TypedDict):
    """Why a batch is cancelled."""

    reason: NotRequired[str | None]
    """A reason that its jobs show."""


class BatchCounts(TypedDict):
    """How many jobs a batch has, in all and by how they ended. Jobs that were deleted since are counted."""

    cancelled: int
    completed: int
    discarded: int
    """Those that failed."""
    jobs: int
    not_ended: int


class BatchPlan(TypedDict):
    """A batch that a job makes when it is enqueued."""

    name: NotRequired[str | None]
    """What to call it: 1 to 100 characters. Names need not differ."""
    notify: NotRequired[Notify | None]
    """The receivers that are notified when it ends."""
    on_end: NotRequired[NewJob | None]
    """Enqueued when all jobs have ended."""
    on_first_failure: NotRequired[NewJob | None]
    """Enqueued when the first job is discarded."""
    on_success: NotRequired[NewJob | None]
    """Enqueued when all jobs have completed. Callbacks are called with `{batch, callback, counts, failed}`, and
    have no params of their own.
    """
    open: NotRequired[bool]
    """Whether jobs may be added until it is closed, for at most 7 days."""
    retention_seconds: NotRequired[float | None]
    """How long it is kept after it has ended, at least 1; 604800 (7 days) if absent."""


BatchState: TypeAlias = 'Literal["open", "closed", "ended"]'
"""Whether jobs may be added to a batch, and whether its jobs have ended."""


class Caller(TypedDict):
    """The caller of a request."""

    principal: str
    """Who it is: `token:ID`, `uid:NUMBER`, or empty on a host that asks for no tokens."""
    share: NotRequired[Share | None]
    """What it uses of its share at this node, if it has one."""
    token: NotRequired[Token | None]
    """Its token, if it has one."""
    verbs: List[str]
    """What it may do."""
    waiting: NotRequired[int | None]
    """How many of its jobs wait or run, if that is limited."""


class CancelBody(TypedDict):
    """How to stop a job."""

    grace_seconds: NotRequired[float | None]
    """How long a running handler may take to stop by itself."""
    reason: NotRequired[str | None]
    """Why; it is shown with the job."""


class Cancel(TypedDict):
    """The result of a cancel."""

    cancel_requested_at: NotRequired[str | None]
    """When the job's first cancel was accepted."""
    id: str
    """The job."""
    state: JobState
    """`running` until it has stopped, else `cancelled`."""


class Cause(TypedDict):
    """What failures with the same cause have in common."""

    example: str
    """The id of the newest."""
    fingerprint: str
    """The same for all of them; lists and changes of jobs take it as a filter."""
    first_at: str
    """When the first of them ended (RFC 3339)."""
    handler: str
    """The handler."""
    jobs: int
    """How many jobs."""
    kind: str
    """The kind of failure; `docs/errors.md` explains all."""
    last_at: str
    """When the last one ended."""
    pattern: str
    """The message, with a sign in place of numbers, ids and quotations."""
    user_kind: NotRequired[str | None]
    """The handler's own name for the error."""


class Causes(TypedDict):
    """Why jobs were discarded."""

    complete: bool
    """Whether these were all. If not, a cause may have more jobs than are counted."""
    examined: int
    """How many jobs were examined, the newest first: at most 5,000."""
    items: List[Cause]
    """The causes, those of the most jobs first: at most 100."""


Change = TypedDict(
    "Change",
    {
        'at': 'str',
        'attempt': 'int',
        'from': 'NotRequired[JobState | None]',
        'handler': 'str',
        'job': 'str',
        'queue': 'str',
        'to': 'NotRequired[JobState | None]',
    },
)
"""The data of an event `change`: a job entered, changed or left its state."""


class ComingFiring(TypedDict):
    """A time at which a schedule will fire."""

    fires_at: str
    """When it fires, in UTC."""
    nominal: str
    """The nominal time (RFC 3339), in the schedule's time zone with its offset from UTC."""


class Component(TypedDict):
    """A component with all its revisions."""

    component: str
    """Its name."""
    current: int
    """The revision that new attempts are executed with."""
    nodes: List[NodeReadiness]
    """Whether each node can run the current revision. Nodes that are gone are left out."""
    revisions: List[Kept]
    """All revisions, the newest first."""


class Cost(TypedDict):
    """What attempts have cost."""

    cpu_us: Spread
    """The CPU time of one."""
    failures: int
    """How many of them failed or were lost. A handler that asked for another attempt has not failed."""
    fuel: Spread
    """The fuel of one."""
    peak_memory_bytes: Spread
    """The most linear memory of one."""
    ran_ms: Spread
    """How long one took."""
    runs: int
    """How many have ended."""


class Count(TypedDict):
    """How many jobs match."""

    complete: bool
    """Whether all jobs were examined. If not, there may be more."""
    jobs: int
    newest: NotRequired[str | None]
    """When the last of them was enqueued."""
    next_cursor: NotRequired[str | None]
    """Where the count continues if there may be more."""
    oldest: NotRequired[str | None]
    """When the first of them was enqueued."""


DependsOn: TypeAlias = 'str | DependsOnCondition'
"""A job to wait for: its id if it must complete, or `{"job", "when"}`."""


class DependsOnCondition(TypedDict):
    """A job to wait for, and how it has to end."""

    job: str
    """The id of the job; in an enqueue also `#n`, entry n of the same array."""
    when: NotRequired[PrerequisiteWhen | None]
    """How it has to end; `completed` if absent. `ended`: in any way. `failed`: it is discarded; if it completes
    or is cancelled, the job that waits is cancelled.
    """


class Revision(TypedDict):
    """One revision of a component."""

    component: str
    """The component's name."""
    deployed_at: str
    """When it was deployed (RFC 3339)."""
    deployed_by: NotRequired[str]
    """Who deployed it: the name of a token, else the principal."""
    digest: str
    """SHA-256 of its bytes, in hex."""
    handlers: List[str]
    """The names of its handlers."""
    label: NotRequired[str | None]
    """What they call it."""
    note: NotRequired[str | None]
    """What they say about it."""
    revision: int
    """1 for the first."""
    schedules: NotRequired[List[str]]
    """The names of the schedules in its manifest."""
    signed_by: NotRequired[str | None]
    """The id of the key that has signed it, if the host asks for signatures."""


class Deployed(Revision):
    """What a deploy or a rollback did."""

    grants_added: List[str]
    """What its handlers may access that the previous revision could not."""
    grants_removed: List[str]
    """What handlers of the previous revision could access and cannot any more."""
    handlers_removed: List[RemovedHandler]
    """Handlers of the previous revision that it lacks."""
    limits_changed: List[LimitChange]
    """Limits that differ from the previous revision."""
    nodes_all: int
    """How many nodes there are, without those that are gone."""
    nodes_ready: int
    """How many nodes can run it already: at least the one that answers."""
    stubbed: List[str]
    """Interfaces that it imports but is not given: calls to them fail."""
    unchanged: bool
    """Whether it was current before."""


class DirGrant(TypedDict):
    """A directory to read."""

    guest: str
    """Where the guest sees it."""
    host: str
    """Where it is on the host."""


class Failure(TypedDict):
    """How an attempt failed."""

    category: FailureCategory
    """Who has to act."""
    code: NotRequired[str | None]
    """The handler's own code."""
    details: NotRequired[Any]
    """More data from the handler."""
    kind: FailureWord
    """The cause; `docs/errors.md` explains all."""
    message: NotRequired[str]
    """One sentence for a person. Lists leave it out."""
    retryable: bool
    """Whether another attempt may follow."""
    stack: NotRequired[str | None]
    """A stack trace of the guest."""
    user_kind: NotRequired[str | None]
    """The handler's own name for the error."""


FailureCategory: TypeAlias = 'Literal["USER_CODE", "DATA_QUALITY", "INFRASTRUCTURE", "CONFIGURATION", "TIMEOUT", "CANCELLED"]'
"""Who has to act on a failure."""


FailureWord: TypeAlias = 'Literal["user_error", "trapped", "fuel_exhausted", "timed_out", "memory_limit", "result_too_large", "invalid_params", "handler_not_found", "grant_missing", "cancelled", "cancel_timeout", "lease_lost", "cell_lost", "poison", "prerequisite_failed", "writes_refused", "input_failed", "steps_diverged"]'
"""Why an attempt failed."""


class Firing(TypedDict):
    """What became of a firing."""

    at: str
    """When it was decided."""
    fate: FiringFate
    """What became of it."""
    job: NotRequired[str | None]
    """The job that was enqueued."""
    nominal: str
    """The nominal time (RFC 3339); the last of several that were missed."""
    reason: NotRequired[str | None]
    """Why no job was enqueued."""
    times: NotRequired[int | None]
    """How many nominal times were missed."""
    withheld: NotRequired[List[Withheld] | None]
    """`reason` if the caller may not see it: it may quote params. That needs the verb `read_payload`."""


class FiringCounts(TypedDict):
    """How often each thing has happened to a firing."""

    failed: int
    """Its job was refused."""
    fired: int
    """Its job was enqueued."""
    late: int
    """Its job was enqueued more than 10 seconds late. These count as fired, too."""
    missed: int
    """No host enqueued its job in time."""
    skipped: int
    """An earlier job had not ended."""


FiringFate: TypeAlias = 'Literal["fired", "held", "skipped", "missed", "failed"]'
"""What became of a firing."""


class Gap(TypedDict):
    """The data of an event `gap`: changes were missed and are no longer kept."""

    lost: NotRequired[int | None]
    """How many; absent if unknown because the id is not one of this host."""


class Grants(TypedDict):
    """What an attempt may access."""

    env: List[str]
    """Names of environment variables."""
    hold: List[str]
    """Limits whose keys it may hold."""
    http: List[HttpGrant]
    """Requests to HTTP servers."""
    jobs: List[JobsGrant]
    """Jobs to enqueue."""
    notify: List[str]
    """Webhooks that the jobs it enqueues may notify."""
    read_dirs: List[DirGrant]
    """Directories to read."""
    secrets: List[str]
    """Names of secrets that it may see."""
    sql: List[TcpGrant]
    """Databases to query."""
    state: NotRequired[StateGrant | None]
    """State to keep."""
    tcp: List[TcpGrant]
    """Connections to servers."""


class Handler(TypedDict):
    """A handler, as its component's current revision has it."""

    backoff: Backoff
    """The pauses between attempts."""
    component: str
    """The component it comes from."""
    cost: List[RevisionCost]
    """What its attempts in this host's cells have cost, by revision, the one that ran last first. Only revisions
    that ran in the last day. After a restart it begins with the newest 100,000 attempts that the store has.
    """
    description: NotRequired[str | None]
    """What it does."""
    grants: Grants
    """What an attempt may access besides its params."""
    limits: Limits
    """What an attempt may use."""
    max_attempts: int
    """The most attempts of a job that sets no number, including the first."""
    name: str
    """Its name."""
    params_schema: NotRequired[Any]
    """JSON Schema of its params; left out of lists."""
    result_schema: NotRequired[Any]
    """JSON Schema of its result; left out of lists."""
    retention_discarded_seconds: NotRequired[float | None]
    """How long its discarded jobs are kept, in seconds, if the manifest says so."""
    retention_seconds: NotRequired[float | None]
    """How long its jobs are kept, in seconds, if the manifest says so."""
    revision: int
    """Which revision of it."""


class Health(TypedDict):
    """The health of the host."""

    certificate_days_left: NotRequired[float | None]
    """Days until the certificate of the API expires, negative if it has; only with TLS."""
    isolation: str
    """Which jobs share a cell: `shared`, all of them, or `component`, those of the same component."""
    status: str
    """Always `ok`."""
    uptime_seconds: int
    """How long it has been running."""
    version: str
    """The host's version."""
    weak: NotRequired[List[str]]
    """What this system lacks to sandbox cells fully, where `cells.allow_weak` permits that. Not shown by a host
    with tokens.
    """


class HttpGrant(TypedDict):
    """Requests to one HTTP server."""

    headers: List[str]
    """The names of headers that the host adds."""
    methods: List[str]
    """The methods; all if empty."""
    paths: List[str]
    """Patterns of paths; all if empty."""
    secrets: List[str]
    """The names of secrets in headers, signatures and requests for access tokens."""
    sign: NotRequired[str | None]
    """How the host signs: `aws-sigv4`."""
    to: str
    """The server, as `https://api.example.com`."""
    token_url: NotRequired[str | None]
    """Where the host gets access tokens."""


class Job(TypedDict):
    """A job. Lists leave out what is large: params, result and the rest that does not change."""

    artifacts: NotRequired[List[Artifact] | None]
    """The files that it has produced."""
    attempt: int
    """The current or latest attempt; 0 before the first."""
    attempts_charged: int
    """How many attempts count so far."""
    attempts_lost: int
    """How many attempts do not count because they were lost through no fault of the job."""
    attributes: NotRequired[Dict[str, str] | None]
    """Other values that its sender attached."""
    batch: NotRequired[str | None]
    """The batch that counts it."""
    cancel_reason: NotRequired[str | None]
    """The reason given for the cancel."""
    cancel_requested_at: NotRequired[str | None]
    """When its cancel was requested."""
    created_by: NotRequired[str | None]
    """The principal that enqueued it, if that is known."""
    deadline: NotRequired[str | None]
    """No attempt after this instant."""
    dependents: NotRequired[List[str] | None]
    """The jobs that wait for it: the first 100."""
    depends_on: NotRequired[List[DependsOn] | None]
    """The jobs it waits or waited for."""
    enqueued_at: str
    """When it was accepted (RFC 3339)."""
    external_id: NotRequired[str | None]
    """The id a foreign orchestrator knows it by."""
    failure: NotRequired[Failure | None]
    """Why its latest attempt did not complete."""
    files: NotRequired[Dict[str, str] | None]
    """The files that its handler reads, by name: the id of an upload, or `JOB/NAME` for an artifact of another job."""
    finished_at: NotRequired[str | None]
    """When it ended."""
    handler: str
    """The handler that executes it; `python#send_email` is one of a foreign runner."""
    id: str
    """Its id."""
    inputs: NotRequired[Dict[str, str] | None]
    """The names below `/inputs` in its params, and the jobs whose results are there once they have ended."""
    kept_until: NotRequired[str | None]
    """When it is forgotten, if it has ended."""
    last_heartbeat_at: NotRequired[str | None]
    """When its foreign worker last sent a heartbeat."""
    max_attempts: int
    """The most attempts that count."""
    node: NotRequired[NamedNode | None]
    """The node that runs it, if other nodes may share the store. Absent if its worker holds it by heartbeats,
    because those may continue at any node.
    """
    notify: NotRequired[List[Notify] | None]
    """The receivers that are notified of its end."""
    params: NotRequired[Any]
    """What the handler is called with."""
    prerequisites_open: NotRequired[int | None]
    """How many jobs it still waits for."""
    priority: int
    """0 (first) to 9."""
    progress: NotRequired[Progress | None]
    """The latest progress of its attempt."""
    queue: str
    """The queue it waits in."""
    ran_ms: int
    """How long its attempts took together, in milliseconds."""
    removed_deadline: NotRequired[str | None]
    """The deadline that had passed when it was run again, and that no longer holds. Only in the answer to a retry."""
    result: NotRequired[Any]
    """Its result, or what it had done when it was cancelled."""
    retention_discarded_seconds: NotRequired[float | None]
    """How long it is kept after it was discarded."""
    retention_seconds: NotRequired[float | None]
    """How long it is kept after it has completed or was cancelled."""
    run_at: NotRequired[str | None]
    """Not before this instant, or when its next attempt is due."""
    state: JobState
    """Its state."""
    timeout_seconds: NotRequired[float | None]
    """The longest an attempt may take, if the job says so."""
    trace_context: NotRequired[Dict[str, str] | None]
    """W3C trace context."""
    unique_key: NotRequired[str | None]
    """The key that makes it unique in its queue."""
    waited_ms: int
    """How long it waited, in milliseconds: all the time until now or its end without an attempt."""
    waits_because: NotRequired[str | None]
    """Why it does not start, if no node can run it now or it waits for other jobs or a limit."""
    wire: str
    """The wire it came in over; `http` is this API."""
    withheld: NotRequired[List[Withheld] | None]
    """What it has, but the caller may not see: `params`, `result`, of the `failure` all but its kind, or of
    `waits_because` the key of a limit. That needs the verb `read_payload`, or `read_own` if the caller has
    enqueued the job. Of `depends_on`, `inputs` and `files`, jobs beyond the caller's scope are left out; then
    `waits_because` is left out too.
    """


JobBatch: TypeAlias = 'str | BatchPlan'
"""The batch of a job."""


class JobOptions(TypedDict):
    """What else a job may have."""

    attributes: NotRequired[Dict[str, str] | None]
    """Other values that the handler sees."""
    batch: NotRequired[JobBatch | None]
    """The batch that counts it: the id of one that is open or that of the job whose handler enqueues it; `#n`
    for the one that entry n of the same array makes; or an object: a batch that it makes, as its first job.
    That batch has the id of the job.
    """
    deadline: NotRequired[str | None]
    """No attempt after this instant (RFC 3339)."""
    delay_seconds: NotRequired[float | None]
    """Not before this many seconds from now; excludes `run_at`."""
    depends_on: NotRequired[List[DependsOn]]
    """The jobs that must end first: each an id, or `#n` for entry n of the same array, if it must complete;
    `{"job": ID, "when": "ended"}` if it may end in any way, and `"failed"` if it must be discarded.
    """
    files: NotRequired[Dict[str, str]]
    """Files that its handler reads: names, and for each the id of an upload, or `JOB/NAME` for an artifact of a
    job of `depends_on`. At most 100.
    """
    inputs: NotRequired[Dict[str, str]]
    """Results that its params get below `/inputs`: names, and the jobs of `depends_on` that return them."""
    max_attempts: NotRequired[int | None]
    """The most attempts, at least 1; if absent, the handler's, which is 20 unless its manifest says otherwise."""
    notify: NotRequired[Notify | None]
    """The receiver that is notified when it has ended."""
    priority: NotRequired[int | None]
    """0 (first) to 9; 5 if absent."""
    queue: NotRequired[str | None]
    """The queue it waits in; `default` if absent."""
    retention_discarded_seconds: NotRequired[float | None]
    """How long it is kept if it is discarded, at least 1; if absent everywhere, as long as others."""
    retention_seconds: NotRequired[float | None]
    """How long it is kept after it has ended, at least 1; if absent, as its queue says, else its handler, else
    604800 (7 days).
    """
    run_at: NotRequired[str | None]
    """Not before this instant (RFC 3339)."""
    timeout_seconds: NotRequired[float | None]
    """The longest an attempt may take; the handler's limit if absent."""
    trace_context: NotRequired[Dict[str, str] | None]
    """W3C trace context."""
    unique: NotRequired[Unique | None]
    """A key with a scope; excludes `unique_key`."""
    unique_key: NotRequired[str | None]
    """If a job of the queue has this key and has not ended, it is returned instead. Short for `unique` with the
    scope `active`.
    """


JobState: TypeAlias = 'Literal["pending", "scheduled", "available", "running", "retryable", "completed", "cancelled", "discarded"]'
"""The state of a job."""


class JobsGrant(TypedDict):
    """Jobs that a handler may enqueue."""

    handlers: List[str]
    """Patterns of their handlers."""
    queues: List[str]
    """Patterns of their queues."""


class Kept(Revision):
    """One revision that is kept."""

    current: bool
    """Whether new attempts are executed with it."""
    manifest: Any
    """Its limits and grants, as they were deployed."""


class Limit(TypedDict):
    """A limit."""

    keys: NotRequired[List[LimitKey] | None]
    """The fullest keys: those for which most jobs wait come first. Not in lists, nor for tokens that may not
    read payloads.
    """
    limit: NewLimit
    """How it was set."""
    name: str
    """Its name."""
    source: LimitSource
    """Where it comes from."""
    waiting: int
    """How many jobs wait for it."""
    withheld: NotRequired[List[Withheld] | None]
    """`keys` if the caller may not see them: they are parts of params. That needs the verb `read_payload`."""


class LimitChange(TypedDict):
    """A limit of a handler that has changed."""

    after: NotRequired[int | None]
    """The value now; null if it is not set."""
    before: NotRequired[int | None]
    """The value before; null if it was not set."""
    handler: str
    """The handler."""
    limit: str
    """Which limit, with its unit: `memory_bytes`, `fuel`, `timeout_ms`, `grace_ms`, `result_bytes_max`,
    `log_bytes_max`, `scratch_bytes`, `artifact_bytes`, `steps_max`, `max_attempts`, `backoff_base_ms`,
    `backoff_max_ms`, `retention_ms` or `retention_discarded_ms`.
    """


class LimitKey(TypedDict):
    """A key of a limit."""

    available: int
    """How many may be claimed."""
    held_until: NotRequired[str | None]
    """A handler holds the key until then: none of its jobs starts before."""
    key: str
    """The value that its jobs have in common. Several parts are a JSON array; empty if a job has no such value."""
    running: int
    """How many run."""
    waiting: int
    """How many of its jobs wait."""


LimitKeyParts: TypeAlias = 'str | List[str]'
"""One part of a key or several: JSON pointers into params such as `/customer`, or `attributes:NAME`."""


class LimitMatch(TypedDict):
    """Which jobs a limit concerns. All of them if both are absent."""

    handler: NotRequired[str | None]
    """The same for handlers, with their runner if they have one: `send_*`, `python#*`."""
    queue: NotRequired[str | None]
    """A name of queues, in which `*` matches any characters."""


class LimitRate(TypedDict):
    """How many jobs of a key may start per period: a token bucket, from which each start takes one, or as many
    as the job's `units`.
    """

    burst: NotRequired[int | None]
    """How many tokens the bucket holds: `count` if absent."""
    count: int
    """How many tokens are added every `per_seconds`: 1–1,000,000."""
    per_seconds: int
    """1–2,678,400 (31 days)."""


LimitSource: TypeAlias = 'Literal["api", "configuration"]'
"""Where a limit comes from."""


LimitWhenFull: TypeAlias = 'Literal["wait", "refuse", "replace_waiting", "cancel_running"]'
"""What happens to a new job whose key of a limit is full."""


class Limits(TypedDict):
    """What an attempt may use."""

    artifact_bytes: NotRequired[int | None]
    """The size of all artifacts of an attempt together; absent if it may keep none."""
    fuel: NotRequired[int | None]
    """CPU budget; if absent, it follows from the time limit."""
    grace_ms: int
    """How long a cancelled guest may take to stop by itself."""
    log_bytes_max: int
    """How much log is kept."""
    memory_bytes: int
    """Linear memory."""
    result_bytes_max: int
    """The largest result."""
    scratch_bytes: NotRequired[int | None]
    """The size of the scratch directory; absent if it has none."""
    steps_max: NotRequired[int | None]
    """The most steps of a job; absent if it may have none."""
    timeout_ms: int
    """Time limit."""


class Line(TypedDict):
    """One line of a log. A line break in its message is text."""

    at: str
    """When (RFC 3339)."""
    at_ms: int
    """Since the start of the attempt."""
    attempt: int
    """During which attempt."""
    fields: Dict[str, Any]
    """Structured fields; their values are JSON."""
    level: LogLevel
    """How severe it is."""
    message: str
    """The message."""
    seq: int
    """Its position; increases from line to line."""
    source: LogLineSource
    """Where it comes from."""


LogLevel: TypeAlias = 'Literal["trace", "debug", "info", "warn", "error"]'
"""How severe a line of a log is."""


LogLineSource: TypeAlias = 'Literal["log", "stdout", "stderr", "host"]'
"""Where a line of a log comes from."""


class MadeBatch(TypedDict):
    """A batch that was made, with its first jobs."""

    batch: Batch
    jobs: List[Accepted]
    """What became of each job. Those that existed before are not in the batch."""


class Many(TypedDict):
    """The result of changing one page of jobs."""

    changed: int
    """How many of them were changed."""
    in_other_state: int
    """How many of those were in another state by then, which does not allow the change."""
    matched: int
    """How many jobs of this page match."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""
    refusals: List[Refusal]
    """The first refusals, at most ten."""
    refused: int
    """How many of them were not changed."""
    stopping: int
    """How many of the changed jobs are running: a cancel has asked them to stop, and they may complete before."""
    unchanged: int
    """How many of them had been asked to stop before, and are not counted as changed again."""


Token = TypedDict(
    "Token",
    {
        'created_at': 'str',
        'created_by': 'str',
        'expires_at': 'NotRequired[str | None]',
        'from': 'List[str]',
        'handlers': 'List[str]',
        'id': 'str',
        'last_used_at': 'NotRequired[str | None]',
        'max_waiting': 'NotRequired[int | None]',
        'name': 'str',
        'overlaps_until': 'NotRequired[str | None]',
        'queues': 'List[str]',
        'rate': 'NotRequired[int | None]',
        'verbs': 'List[str]',
    },
)
"""A token, without its text."""


class MintedToken(Token):
    """A new token with its text, which is shown only once."""

    token: str
    """The text, to be sent as `Authorization: Bearer TOKEN`."""


class NamedNode(TypedDict):
    """A node of those that share the store."""

    id: str
    """Its id."""
    name: NotRequired[str | None]
    """The name of its machine, if that is known."""


class NewBatch(TypedDict):
    """A batch to make. All or nothing of it is accepted."""

    jobs: NotRequired[List[NewJob] | None]
    """Its first jobs: at most 1,000. `"#n"` in `depends_on` is entry n (from 0)."""
    name: NotRequired[str | None]
    """What to call it: 1 to 100 characters. Names need not differ."""
    notify: NotRequired[Notify | None]
    """The receivers that are notified when it ends."""
    on_end: NotRequired[NewJob | None]
    """Enqueued when all jobs have ended."""
    on_first_failure: NotRequired[NewJob | None]
    """Enqueued when the first job is discarded."""
    on_success: NotRequired[NewJob | None]
    """Enqueued when all jobs have completed. Callbacks are called with `{batch, callback, counts, failed}`, and
    have no params of their own.
    """
    open: NotRequired[bool]
    """Whether jobs may be added until it is closed, for at most 7 days."""
    retention_seconds: NotRequired[float | None]
    """How long it is kept after it has ended, at least 1; 604800 (7 days) if absent."""


class NewJob(TypedDict):
    """A job to enqueue."""

    attributes: NotRequired[Dict[str, str] | None]
    """Other values that the handler sees."""
    batch: NotRequired[JobBatch | None]
    """The batch that counts it: the id of one that is open or that of the job whose handler enqueues it; `#n`
    for the one that entry n of the same array makes; or an object: a batch that it makes, as its first job.
    That batch has the id of the job.
    """
    deadline: NotRequired[str | None]
    """No attempt after this instant (RFC 3339)."""
    delay_seconds: NotRequired[float | None]
    """Not before this many seconds from now; excludes `run_at`."""
    depends_on: NotRequired[List[DependsOn]]
    """The jobs that must end first: each an id, or `#n` for entry n of the same array, if it must complete;
    `{"job": ID, "when": "ended"}` if it may end in any way, and `"failed"` if it must be discarded.
    """
    files: NotRequired[Dict[str, str]]
    """Files that its handler reads: names, and for each the id of an upload, or `JOB/NAME` for an artifact of a
    job of `depends_on`. At most 100.
    """
    handler: str
    """The handler that executes it; `python#send_email` is one of a foreign runner."""
    inputs: NotRequired[Dict[str, str]]
    """Results that its params get below `/inputs`: names, and the jobs of `depends_on` that return them."""
    max_attempts: NotRequired[int | None]
    """The most attempts, at least 1; if absent, the handler's, which is 20 unless its manifest says otherwise."""
    notify: NotRequired[Notify | None]
    """The receiver that is notified when it has ended."""
    params: NotRequired[Any]
    """What the handler is called with; `null` if absent."""
    priority: NotRequired[int | None]
    """0 (first) to 9; 5 if absent."""
    queue: NotRequired[str | None]
    """The queue it waits in; `default` if absent."""
    retention_discarded_seconds: NotRequired[float | None]
    """How long it is kept if it is discarded, at least 1; if absent everywhere, as long as others."""
    retention_seconds: NotRequired[float | None]
    """How long it is kept after it has ended, at least 1; if absent, as its queue says, else its handler, else
    604800 (7 days).
    """
    run_at: NotRequired[str | None]
    """Not before this instant (RFC 3339)."""
    timeout_seconds: NotRequired[float | None]
    """The longest an attempt may take; the handler's limit if absent."""
    trace_context: NotRequired[Dict[str, str] | None]
    """W3C trace context."""
    unique: NotRequired[Unique | None]
    """A key with a scope; excludes `unique_key`."""
    unique_key: NotRequired[str | None]
    """If a job of the queue has this key and has not ended, it is returned instead. Short for `unique` with the
    scope `active`.
    """


NewJobs: TypeAlias = 'NewJob | List[NewJob]'
"""The body of an enqueue: one job, or an array of jobs."""


class NewLimit(TypedDict):
    """A limit to set. It needs `concurrency`, `rate`, or both."""

    concurrency: NotRequired[int | None]
    """How many jobs of a key may run concurrently: 1–1,000,000."""
    key: NotRequired[LimitKeyParts | None]
    """What makes up a job's key. If absent, all jobs have the same key."""
    match: NotRequired[LimitMatch | None]
    """Which jobs it concerns."""
    rate: NotRequired[LimitRate | None]
    """How many jobs of a key may start in a time."""
    units: NotRequired[str | None]
    """Where a job says how many tokens each start of it takes: a JSON pointer into params such as `/recipients`,
    or `attributes:NAME`. It is a whole number from 0 to `burst`, 1 if it is not there.
    """
    when_full: NotRequired[LimitWhenFull | None]
    """What happens to a new job whose key is full; `wait` if absent."""


NewSchedule = TypedDict(
    "NewSchedule",
    {
        'catch_up': 'NotRequired[ScheduleCatchUp | None]',
        'from': 'NotRequired[str | None]',
        'job': 'NewJob',
        'note': 'NotRequired[str | None]',
        'overlap': 'NotRequired[ScheduleOverlap | None]',
        'paused': 'NotRequired[bool]',
        'spread': 'NotRequired[str | None]',
        'time_zone': 'NotRequired[str | None]',
        'until': 'NotRequired[str | None]',
        'when': 'ScheduleWhen',
        'window': 'NotRequired[str | None]',
    },
)
"""A schedule to set."""


NewTokenBody = TypedDict(
    "NewTokenBody",
    {
        'allow': 'NotRequired[List[str]]',
        'expires_seconds': 'NotRequired[float | None]',
        'from': 'NotRequired[List[str]]',
        'handlers': 'NotRequired[List[str]]',
        'max_waiting': 'NotRequired[int | None]',
        'name': 'str',
        'queues': 'NotRequired[List[str]]',
        'rate': 'NotRequired[int | None]',
        'role': 'NotRequired[TokenRole | None]',
    },
)
"""A token to make. It may not allow more than the token that makes it."""


class NodeReadiness(TypedDict):
    """Whether a node can run a component."""

    component: str
    """ready, compiling or failed."""
    id: str
    """The node's id."""
    name: NotRequired[str | None]
    """The name of its machine."""
    reason: NotRequired[str | None]
    """Why it cannot run the component."""
    state: NodeState
    """Its state."""


class NodeRunning(TypedDict):
    """How many attempts a node runs. Those whose workers hold a lease by heartbeats may continue at any node,
    and are not counted.
    """

    all: int
    """All of them."""
    cells: int
    """In its cells."""
    runners: Dict[str, int]
    """At foreign runners, by pool."""


NodeState: TypeAlias = 'Literal["live", "draining", "drained", "silent", "gone"]'
"""The state of a node."""


class Notify(TypedDict):
    """A receiver that is notified of the end of a job or a batch by a signed request."""

    events: NotRequired[List[str]]
    """Which events it gets: `job.completed`, `job.discarded` and `job.cancelled` of a job,
    `batch.first_failure`, `batch.success` and `batch.end` of a batch; all of them if absent.
    """
    secret: str
    """The name of the secret that signs it, one that this section allows."""
    url: str
    """Where the request goes: a URL that a section `[webhooks.NAME]` of the host's configuration allows."""


class AttemptPage(TypedDict):
    """A page of a list."""

    items: List[Attempt]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class AuditEntryPage(TypedDict):
    """A page of a list."""

    items: List[AuditEntry]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class BatchPage(TypedDict):
    """A page of a list."""

    items: List[Batch]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class ComingFiringPage(TypedDict):
    """A page of a list."""

    items: List[ComingFiring]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class FiringPage(TypedDict):
    """A page of a list."""

    items: List[Firing]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class HandlerPage(TypedDict):
    """A page of a list."""

    items: List[Handler]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class JobPage(TypedDict):
    """A page of a list."""

    items: List[Job]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class LimitPage(TypedDict):
    """A page of a list."""

    items: List[Limit]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class LinePage(TypedDict):
    """A page of a list."""

    items: List[Line]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class NodePage(TypedDict):
    """A page of a list."""

    items: List[Node]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class QueuePage(TypedDict):
    """A page of a list."""

    items: List[Queue]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class RevisionPage(TypedDict):
    """A page of a list."""

    items: List[Revision]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class RunnerPoolPage(TypedDict):
    """A page of a list."""

    items: List[RunnerPool]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class SchedulePage(TypedDict):
    """A page of a list."""

    items: List[Schedule]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class StateKeyPage(TypedDict):
    """A page of a list."""

    items: List[StateKey]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class StateSpacePage(TypedDict):
    """A page of a list."""

    items: List[StateSpace]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class TokenPage(TypedDict):
    """A page of a list."""

    items: List[Token]
    """The items; a page may have fewer than asked for although more follow."""
    next_cursor: NotRequired[str | None]
    """The `cursor` of the next page; `null` at the end."""


class PauseQueue(TypedDict):
    """How to pause a queue."""

    create: NotRequired[bool]
    """Whether to make the queue if it does not exist."""


PrerequisiteWhen: TypeAlias = 'Literal["completed", "ended", "failed"]'
"""How a job has to end for one that waits for it to start."""


class PriorityBody(TypedDict):
    """A new priority."""

    priority: int
    """0 (first) to 9."""


class Problem(TypedDict):
    """The problem document of a refusal (RFC 9457)."""

    code: str
    """The stable code: see `docs/errors.md`."""
    detail: str
    """What is wrong with this request."""
    next: str
    """The next step."""
    state: NotRequired[str | None]
    """The state of the resource, if that is the reason."""
    status: int
    """The HTTP status."""
    title: str
    """A few words, the same for every occurrence of the code."""
    type: str
    """`urn:host:problem:` and the code."""


class Progress(TypedDict):
    """The progress of an attempt."""

    message: str
    """What it is doing."""
    percent: NotRequired[float | None]
    """0 to 100, if the handler knows."""


class ProgressEvent(TypedDict):
    """The data of an event `progress`: a running job reported progress."""

    at: str
    attempt: int
    job: str
    message: str
    percent: NotRequired[float | None]


class Queue(TypedDict):
    """A queue."""

    counts: Dict[str, int]
    """How many jobs it has in each state."""
    name: str
    """Its name."""
    paused: bool
    """Whether its jobs do not start."""


class Refusal(TypedDict):
    """Why a job was not changed."""

    code: str
    detail: str
    id: str


class RemovedHandler(TypedDict):
    """A handler that is no longer deployed."""

    handler: str
    """Its name."""
    jobs: int
    """How many jobs for it have not ended; at most 10,000 are counted. They fail when they start, unless it is
    deployed again.
    """


class RemovedLimit(TypedDict):
    """A limit that was removed."""

    name: str
    """Its name."""
    removed: bool
    """Always true."""


class RemovedQueue(TypedDict):
    """What became of a queue."""

    name: str
    """Its name."""
    removed: bool
    """Always true."""


class RemovedSchedule(TypedDict):
    """A schedule that was removed."""

    name: str
    """Its name."""
    removed: bool
    """Always true."""


class RemovedState(TypedDict):
    """What was removed."""

    more: bool
    """Whether there may be more: repeat the request."""
    removed: int
    """How many keys."""


class Removed(TypedDict):
    """A removed component."""

    component: str
    """Its name."""
    removed: bool
    """Always true."""


class Request(TypedDict):
    """One request to an HTTP server."""

    at_ms: int
    """When it began, from the start of the attempt."""
    duration_ms: float
    """How long it took."""
    error: NotRequired[RequestErrorWord | None]
    """Why there is no answer."""
    method: NotRequired[str | None]
    """`GET`, `POST`, …, unless it is invalid."""
    origin: NotRequired[str | None]
    """The server, with its scheme and port, unless the URL is invalid."""
    path_pattern: NotRequired[str | None]
    """The pattern of the manifest that allowed the path, if it names patterns."""
    received_bytes: int
    """The size of the body that the handler got."""
    sent_bytes: int
    """The size of the body that was sent."""
    status: NotRequired[int | None]
    """The status of the answer."""


RequestErrorWord: TypeAlias = 'Literal["not_granted", "address_not_allowed", "invalid_request", "request_too_large", "name_not_found", "connection_refused", "certificate_refused", "response_incomplete", "response_encoded", "unreachable", "timed_out", "too_large", "limit_reached", "unavailable", "login_refused", "statement_refused", "cut"]'
"""Why a request to an HTTP server got no answer."""


class Requests(TypedDict):
    """The requests of an attempt to HTTP servers. Paths, queries, headers and bodies are not recorded."""

    failed: int
    """How many of them got no answer."""
    first: List[Request]
    """The first 100, in the order in which they began."""
    received_bytes: int
    """The size of all bodies that handlers got."""
    sent_bytes: int
    """The size of all bodies that were sent."""
    total: int
    """How many there were."""


class RescheduleBody(TypedDict):
    """A new start time: exactly one of the two."""

    delay_seconds: NotRequired[float | None]
    """This many seconds from now."""
    run_at: NotRequired[str | None]
    """At this instant (RFC 3339), or immediately if it has passed."""


class RestartBody(TypedDict):
    """Which runners to restart."""

    runner: NotRequired[int | None]
    """The number of one runner, from 1; all of the pool if absent."""


class RetryBody(TypedDict):
    """How to run a job again."""

    force: NotRequired[bool]
    """Whether it starts even if jobs it depends on have not ended as it needs."""


class RevisionCost(TypedDict):
    """What the attempts of one revision have cost."""

    component: str
    """The component."""
    last_day: Cost
    """Over the last 23 to 24 hours."""
    last_hour: NotRequired[Cost | None]
    """Over the last 55 to 60 minutes; null if none has ended."""
    revision: int
    """Its revision."""


class Revoked(TypedDict):
    """A token that was revoked."""

    id: str
    """Its id."""
    revoked: bool
    """Always true."""


class RollbackBody(TypedDict):
    """Which revision to go back to."""

    accept_grants: NotRequired[bool]
    """Accept grants that the current revision does not have."""
    force: NotRequired[bool]
    """Roll back although params of waiting jobs do not match the schema of that revision."""
    revision: int
    """Its number."""


class RotateBody(TypedDict):
    """How to exchange the text of a token."""

    overlap_seconds: NotRequired[float | None]
    """How long the text before still counts; not at all if left out."""


class Runner(TypedDict):
    """One foreign runner."""

    address: NotRequired[str | None]
    """Where it listens, or the Redis from which it takes its jobs."""
    doing: NotRequired[str | None]
    """What it is doing, if its wire reports that."""
    executor: str
    """Its name in attempts: `python/1`."""
    failures: int
    """How often in a row it ended without an answer or could not be reached."""
    in_flight: int
    """Attempts in flight."""
    pid: NotRequired[int | None]
    """Its process, if we started it."""
    reason: NotRequired[str | None]
    """Why it takes no work, if known."""
    state: RunnerState
    """Its state."""


class RunnerPool(TypedDict):
    """A pool of foreign runners."""

    default: bool
    """Whether it gets the jobs whose handler no component has."""
    external: bool
    """Whether its runners are started by another program; a restart then reconnects."""
    in_flight: int
    """Attempts in flight at all of them."""
    name: str
    """Its name: what stands before `#` in a handler's name."""
    node: NotRequired[NamedNode | None]
    """The node that has it, if there are others."""
    queues: List[str]
    """The queues whose jobs all go to it."""
    restartable: bool
    """Whether its node can restart its runners or reconnect to them."""
    runners: List[Runner]
    """Its runners."""
    runners_omitted: NotRequired[int]
    """How many more it has at another node, which lists only the first 128."""
    up: int
    """How many of its runners take work."""
    wire: str
    """Its wire."""


RunnerState: TypeAlias = 'Literal["down", "starting", "up", "draining", "ending"]'
"""The state of a foreign runner."""


class Schedule(TypedDict):
    """A schedule."""

    counts: FiringCounts
    """How often each thing has happened."""
    fires_at: NotRequired[str | None]
    """When it fires next: the nominal time with its spread."""
    held: int
    """How many firings wait for earlier jobs to end."""
    name: str
    """Its name."""
    next: NotRequired[str | None]
    """The next nominal time (RFC 3339)."""
    paused_because: NotRequired[str | None]
    """Why the host paused it: its times can no longer be found."""
    previous: NotRequired[str | None]
    """The latest nominal time whose job was enqueued."""
    schedule: NewSchedule
    """How it was set."""
    source: str
    """Where it comes from: `api`, `configuration`, or `component:NAME`."""
    withheld: NotRequired[List[Withheld] | None]
    """`params` if its job has params that the caller may not see. That needs the verb `read_payload`."""


ScheduleCatchUp: TypeAlias = 'Literal["none", "last", "all"]'
"""What happens to firings that passed while no host was there."""


ScheduleOverlap: TypeAlias = 'Literal["skip", "queue_one", "queue_all", "cancel", "allow"]'
"""What happens to a firing while an earlier job of the schedule has not ended."""


SchedulePatterns: TypeAlias = 'str | List[str]'
"""One pattern or several."""


class ScheduleWhen(TypedDict):
    """When a schedule fires: `cron` or `every`."""

    cron: NotRequired[SchedulePatterns | None]
    """At the times that a pattern, or any of several, has in the schedule's time zone: five fields, or six with
    seconds first; `@daily` and the like.
    """
    every: NotRequired[str | None]
    """At the multiples of an interval, such as `10m`: at least a second."""
    phase: NotRequired[str | None]
    """How much later than the multiples, such as `2m`."""


class SetStateBody(TypedDict):
    """A value to write: one of the two."""

    base64: NotRequired[str | None]
    """As Base64."""
    value: NotRequired[str | None]
    """As text."""


class Share(TypedDict):
    """How much of its share of a node a token uses."""

    body_bytes: int
    """The memory that bodies of its requests use, in bytes; the first 16 KiB of each are free."""
    body_bytes_max: int
    """The most that they may use."""
    streams: int
    """How many streams of events it has open."""
    streams_max: int
    """The most that it may have open."""


class Spread(TypedDict):
    """How values are distributed. The percentiles are at most an eighth above the exact ones."""

    max: int
    """The largest value."""
    p50: int
    """Half of the values are not above it."""
    p99: int
    """99 of 100 values are not above it."""


class StateGrant(TypedDict):
    """State that a handler may keep."""

    quota_kib: int
    """The largest size of a space to which the handler may add, in KiB."""
    shared: List[str]
    """The spaces that it shares with other handlers."""


class StateKey(TypedDict):
    """A key of state."""

    bytes: int
    """The length of its value."""
    key: str
    """The key."""
    updated_at: str
    """When it was written last (RFC 3339)."""


class StateSpace(TypedDict):
    """A space of state."""

    bytes: int
    """The bytes of its keys and values, and 64 for each key."""
    keys: int
    """How many keys it has."""
    space: str
    """`handler:NAME`, the space of one handler, or `shared:NAME`."""


class StateValue(TypedDict):
    """A key of state with its value."""

    base64: NotRequired[str | None]
    """The value as Base64, if it is not."""
    key: str
    """The key."""
    updated_at: str
    """When it was written last (RFC 3339)."""
    value: NotRequired[str | None]
    """The value, if it is UTF-8."""


class TcpGrant(TypedDict):
    """Connections to one server."""

    database: NotRequired[str | None]
    """To which database."""
    login: NotRequired[str | None]
    """The protocol in which the host signs in: `postgres`, `redis` or `smtp`; null if it does not."""
    name: NotRequired[str | None]
    """The name for SQL; null for a connection of the handler's own."""
    secrets: List[str]
    """The names of secrets in the password."""
    tls: str
    """When the host begins TLS: `none`, `direct`, `postgres`, `smtp` or `imap`."""
    to: str
    """The server and its port, as `db.internal:5432`."""
    user: NotRequired[str | None]
    """As whom."""


TokenRole: TypeAlias = 'Literal["producer", "viewer", "operator", "deployer", "admin"]'
"""A named set of verbs."""


class Trend(TypedDict):
    """How many jobs came and went, and how long they took. A node counts what it does itself, since its start."""

    points: List[TrendPoint]
    """The steps, the oldest first. The last one is not over."""
    step_seconds: int
    """The length of a step."""


class TrendPoint(TypedDict):
    """One step."""

    at: str
    """When it began (RFC 3339)."""
    cancelled: int
    """Jobs that were cancelled."""
    completed: int
    """Jobs that completed."""
    discarded: int
    """Jobs that were discarded."""
    enqueued: int
    """Jobs that were accepted."""
    failures: int
    """Attempts that failed."""
    ran_ms: Spread
    """How long an attempt took."""
    waited_ms: Spread
    """From when a job could start to its first attempt."""
    waiting: NotRequired[int | None]
    """Jobs of all queues that waited for a slot, at the end of the step; absent if nothing has counted them."""


class TriggeredJobs(TypedDict):
    """The jobs that were enqueued."""

    jobs: List[str]
    """Their ids, in the order of their nominal times."""


class Unique(TypedDict):
    """A key that one job of a queue has."""

    key: str
    """The key, 1 to 256 bytes."""
    max_delay_seconds: NotRequired[float | None]
    """With `push_back`: later jobs with the key delay this one no longer than this after it was enqueued."""
    on_conflict: NotRequired[UniqueOnConflict | None]
    """What becomes of that job if none of its attempts has begun; `keep` if absent. `replace`: it gets the
    params of this one. `push_back`: that, and it starts when this one would. Only a job of the same handler
    and principal changes.
    """
    scope: NotRequired[UniqueScope]
    """Which earlier job with the key counts as this one; `active` if absent."""


UniqueOnConflict: TypeAlias = 'Literal["keep", "replace", "push_back"]'
"""What becomes of an earlier job with the same unique key."""


class UniqueScopeSeconds(TypedDict):
    """One that has not ended or was enqueued within this many seconds, as long as it is kept: its retention
    should not end sooner.
    """

    seconds: float
    """One that has not ended or was enqueued within this many seconds, as long as it is kept: its retention
    should not end sooner.
    """


UniqueScope: TypeAlias = 'Literal["active"] | Literal["retained"] | UniqueScopeSeconds'
"""Which earlier job with the same key counts as the new one."""


class Upload(TypedDict):
    """A file that was sent for jobs to read."""

    bytes: int
    """Its length."""
    content_type: str
    """What it was sent as."""
    expires_at: str
    """When new jobs may no longer be given it (RFC 3339). It is kept as long as a job that was."""
    id: str
    """Its id, which `files` of a new job names."""
    sha256: str
    """The SHA-256 of its content, in hexadecimal digits."""


class WebhookTest(TypedDict):
    """A webhook to try."""

    secret: str
    """The name of the secret that signs it."""
    url: str
    """Where the request goes."""


Withheld: TypeAlias = 'Literal["params", "result", "artifacts", "failure", "reason", "keys", "waits_because", "depends_on", "inputs", "files"]'
"""A part of a document that the caller may not see."""


class WorkerReport(TypedDict):
    """What a foreign worker reports about itself and the end of its attempt, as far as its protocol has it."""

    ended_at: NotRequired[str | None]
    """When the attempt ended, by the worker's clock."""
    name: NotRequired[str | None]
    """The name that it gives itself."""
    read_bytes: NotRequired[int | None]
    """How many bytes the attempt read."""
    written_bytes: NotRequired[int | None]
    """How many bytes the attempt wrote."""


class HostListAuditQuery(TypedDict):
    since: NotRequired[str]
    """From this instant on (RFC 3339)."""
    principal: NotRequired[str]
    """Only those of this principal: `token:ID`, the name of a token, `uid:NUMBER` or `host`."""
    verb: NotRequired[str]
    """Only those with this verb."""
    limit: NotRequired[int]
    """How many entries a page has at most, 1–1000; 100 if left out."""
    cursor: NotRequired[str]
    """Where the page before ended."""


class BatchesListQuery(TypedDict):
    limit: NotRequired[int]
    """At most this many, 1 to 1,000; 100 if absent."""
    cursor: NotRequired[str]
    """The `next_cursor` of the answer before."""


class JobsListCausesQuery(TypedDict):
    queue: NotRequired[str]
    """Only jobs in this queue."""
    handler: NotRequired[str]
    """Only jobs for this handler."""
    since: NotRequired[str]
    """Only jobs that were enqueued at this instant or later (RFC 3339)."""
    fingerprint: NotRequired[str]
    """Only the cause with this fingerprint."""


class JobsListQuery(TypedDict):
    q: NotRequired[str]
    """A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a
    key must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
    params and words. Further parameters add to it.
    """
    queue: NotRequired[str]
    """Only jobs in this queue."""
    handler: NotRequired[str]
    """Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters."""
    since: NotRequired[str]
    """Only jobs that were enqueued at this instant or later (RFC 3339)."""
    until: NotRequired[str]
    """Only jobs that were enqueued before this instant (RFC 3339)."""
    id: NotRequired[str]
    """Only jobs whose id starts with this prefix."""
    failure: NotRequired[str]
    """Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
    handler's own name for an error, `user_kind` of a failure.
    """
    wire: NotRequired[str]
    """Only jobs that came in over this wire; `http` is this API."""
    unique_key: NotRequired[str]
    """Only jobs with this unique key."""
    attribute: NotRequired[str]
    """Only jobs with this attribute, as `KEY=VALUE`."""
    param: NotRequired[str]
    """Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`."""
    fingerprint: NotRequired[str]
    """Only jobs that failed for this cause: a `fingerprint` of the list of failures."""
    batch: NotRequired[str]
    """Only jobs that this batch counts."""
    state: NotRequired[JobState]
    """Only jobs in this state."""
    sort: NotRequired[Literal["newest", "oldest"]]
    """`newest` or `oldest` first; `newest` if absent."""
    limit: NotRequired[int]
    """At most this many, 1 to 1,000; 100 if absent."""
    cursor: NotRequired[int]
    """The `next_cursor` of the answer before."""


class JobsCancelAllQuery(TypedDict):
    q: NotRequired[str]
    """A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a
    key must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
    params and words. Further parameters add to it.
    """
    queue: NotRequired[str]
    """Only jobs in this queue."""
    handler: NotRequired[str]
    """Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters."""
    since: NotRequired[str]
    """Only jobs that were enqueued at this instant or later (RFC 3339)."""
    until: NotRequired[str]
    """Only jobs that were enqueued before this instant (RFC 3339)."""
    id: NotRequired[str]
    """Only jobs whose id starts with this prefix."""
    failure: NotRequired[str]
    """Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
    handler's own name for an error, `user_kind` of a failure.
    """
    wire: NotRequired[str]
    """Only jobs that came in over this wire; `http` is this API."""
    unique_key: NotRequired[str]
    """Only jobs with this unique key."""
    attribute: NotRequired[str]
    """Only jobs with this attribute, as `KEY=VALUE`."""
    param: NotRequired[str]
    """Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`."""
    fingerprint: NotRequired[str]
    """Only jobs that failed for this cause: a `fingerprint` of the list of failures."""
    batch: NotRequired[str]
    """Only jobs that this batch counts."""
    state: NotRequired[JobState]
    """Only jobs in this state."""
    sort: NotRequired[Literal["newest", "oldest"]]
    """`newest` or `oldest` first; `newest` if absent."""
    limit: NotRequired[int]
    """At most this many, 1 to 1,000; 100 if absent."""
    cursor: NotRequired[int]
    """The `next_cursor` of the answer before."""


class JobsCountQuery(TypedDict):
    q: NotRequired[str]
    """A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a
    key must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
    params and words. Further parameters add to it.
    """
    queue: NotRequired[str]
    """Only jobs in this queue."""
    handler: NotRequired[str]
    """Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters."""
    since: NotRequired[str]
    """Only jobs that were enqueued at this instant or later (RFC 3339)."""
    until: NotRequired[str]
    """Only jobs that were enqueued before this instant (RFC 3339)."""
    id: NotRequired[str]
    """Only jobs whose id starts with this prefix."""
    failure: NotRequired[str]
    """Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
    handler's own name for an error, `user_kind` of a failure.
    """
    wire: NotRequired[str]
    """Only jobs that came in over this wire; `http` is this API."""
    unique_key: NotRequired[str]
    """Only jobs with this unique key."""
    attribute: NotRequired[str]
    """Only jobs with this attribute, as `KEY=VALUE`."""
    param: NotRequired[str]
    """Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`."""
    fingerprint: NotRequired[str]
    """Only jobs that failed for this cause: a `fingerprint` of the list of failures."""
    batch: NotRequired[str]
    """Only jobs that this batch counts."""
    state: NotRequired[JobState]
    """Only jobs in this state."""
    sort: NotRequired[Literal["newest", "oldest"]]
    """`newest` or `oldest` first; `newest` if absent."""
    limit: NotRequired[int]
    """At most this many, 1 to 1,000; 100 if absent."""
    cursor: NotRequired[int]
    """The `next_cursor` of the answer before."""


class JobsSetPriorityOfAllQuery(TypedDict):
    q: NotRequired[str]
    """A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a
    key must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
    params and words. Further parameters add to it.
    """
    queue: NotRequired[str]
    """Only jobs in this queue."""
    handler: NotRequired[str]
    """Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters."""
    since: NotRequired[str]
    """Only jobs that were enqueued at this instant or later (RFC 3339)."""
    until: NotRequired[str]
    """Only jobs that were enqueued before this instant (RFC 3339)."""
    id: NotRequired[str]
    """Only jobs whose id starts with this prefix."""
    failure: NotRequired[str]
    """Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
    handler's own name for an error, `user_kind` of a failure.
    """
    wire: NotRequired[str]
    """Only jobs that came in over this wire; `http` is this API."""
    unique_key: NotRequired[str]
    """Only jobs with this unique key."""
    attribute: NotRequired[str]
    """Only jobs with this attribute, as `KEY=VALUE`."""
    param: NotRequired[str]
    """Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`."""
    fingerprint: NotRequired[str]
    """Only jobs that failed for this cause: a `fingerprint` of the list of failures."""
    batch: NotRequired[str]
    """Only jobs that this batch counts."""
    state: NotRequired[JobState]
    """Only jobs in this state."""
    sort: NotRequired[Literal["newest", "oldest"]]
    """`newest` or `oldest` first; `newest` if absent."""
    limit: NotRequired[int]
    """At most this many, 1 to 1,000; 100 if absent."""
    cursor: NotRequired[int]
    """The `next_cursor` of the answer before."""


class JobsPurgeAllQuery(TypedDict):
    q: NotRequired[str]
    """A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a
    key must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
    params and words. Further parameters add to it.
    """
    queue: NotRequired[str]
    """Only jobs in this queue."""
    handler: NotRequired[str]
    """Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters."""
    since: NotRequired[str]
    """Only jobs that were enqueued at this instant or later (RFC 3339)."""
    until: NotRequired[str]
    """Only jobs that were enqueued before this instant (RFC 3339)."""
    id: NotRequired[str]
    """Only jobs whose id starts with this prefix."""
    failure: NotRequired[str]
    """Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
    handler's own name for an error, `user_kind` of a failure.
    """
    wire: NotRequired[str]
    """Only jobs that came in over this wire; `http` is this API."""
    unique_key: NotRequired[str]
    """Only jobs with this unique key."""
    attribute: NotRequired[str]
    """Only jobs with this attribute, as `KEY=VALUE`."""
    param: NotRequired[str]
    """Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`."""
    fingerprint: NotRequired[str]
    """Only jobs that failed for this cause: a `fingerprint` of the list of failures."""
    batch: NotRequired[str]
    """Only jobs that this batch counts."""
    state: NotRequired[JobState]
    """Only jobs in this state."""
    sort: NotRequired[Literal["newest", "oldest"]]
    """`newest` or `oldest` first; `newest` if absent."""
    limit: NotRequired[int]
    """At most this many, 1 to 1,000; 100 if absent."""
    cursor: NotRequired[int]
    """The `next_cursor` of the answer before."""


class JobsRetryAllQuery(TypedDict):
    q: NotRequired[str]
    """A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a
    key must occur in a job's names, attributes, params or failure. Only here may there be several attributes,
    params and words. Further parameters add to it.
    """
    queue: NotRequired[str]
    """Only jobs in this queue."""
    handler: NotRequired[str]
    """Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters."""
    since: NotRequired[str]
    """Only jobs that were enqueued at this instant or later (RFC 3339)."""
    until: NotRequired[str]
    """Only jobs that were enqueued before this instant (RFC 3339)."""
    id: NotRequired[str]
    """Only jobs whose id starts with this prefix."""
    failure: NotRequired[str]
    """Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other word is a
    handler's own name for an error, `user_kind` of a failure.
    """
    wire: NotRequired[str]
    """Only jobs that came in over this wire; `http` is this API."""
    unique_key: NotRequired[str]
    """Only jobs with this unique key."""
    attribute: NotRequired[str]
    """Only jobs with this attribute, as `KEY=VALUE`."""
    param: NotRequired[str]
    """Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`."""
    fingerprint: NotRequired[str]
    """Only jobs that failed for this cause: a `fingerprint` of the list of failures."""
    batch: NotRequired[str]
    """Only jobs that this batch counts."""
    state: NotRequired[JobState]
    """Only jobs in this state."""
    sort: NotRequired[Literal["newest", "oldest"]]
    """`newest` or `oldest` first; `newest` if absent."""
    limit: NotRequired[int]
    """At most this many, 1 to 1,000; 100 if absent."""
    cursor: NotRequired[int]
    """The `next_cursor` of the answer before."""


class JobsAttemptsQuery(TypedDict):
    limit: NotRequired[int]
    """At most this many, 1 to 1,000; 100 if absent."""
    cursor: NotRequired[int]
    """Items behind the one with this number: a `next_cursor`, or the last one seen, to follow the list."""


class JobsLogsQuery(TypedDict):
    limit: NotRequired[int]
    """At most this many, 1 to 1,000; 100 if absent."""
    cursor: NotRequired[int]
    """Items behind the one with this number: a `next_cursor`, or the last one seen, to follow the list."""


class JobsWaitQuery(TypedDict):
    timeout_seconds: NotRequired[float]
    """At most 300; 30 if absent."""


class LimitsShowQuery(TypedDict):
    keys: NotRequired[int]
    """1–1000; 20 if absent."""


class RunnersShowQuery(TypedDict):
    node: NotRequired[str]
    """The node's id, the start of it, or the name of its machine."""


class SchedulesListQuery(TypedDict):
    limit: NotRequired[int]
    """1–1000; 100 if absent."""
    cursor: NotRequired[str]
    """The `next_cursor` of the page before."""


class SchedulesComingFiringsQuery(TypedDict):
    count: NotRequired[int]
    """1–1000; 20 if absent."""


class StateSpacesQuery(TypedDict):
    cursor: NotRequired[str]
    """`next_cursor` of the page before."""
    limit: NotRequired[int]
    """At most 1,000; 100 if absent."""


class StateRemoveKeysQuery(TypedDict):
    prefix: NotRequired[str]
    """Only keys that start with this."""


class StateKeysQuery(TypedDict):
    prefix: NotRequired[str]
    """Only keys that start with this."""
    cursor: NotRequired[str]
    """`next_cursor` of the page before."""
    limit: NotRequired[int]
    """At most 1,000; 100 if absent."""


class StateRemoveQuery(TypedDict):
    key: str
    """The key."""


class StateValueQuery(TypedDict):
    key: str
    """The key."""


class StateSetQuery(TypedDict):
    key: str
    """The key."""


class JobsShowTrendsQuery(TypedDict):
    span: NotRequired[Literal["hour", "day", "week"]]
    """`hour`, `day` or `week`; `hour` if absent."""


class JobsApi(Group):
    """`client.api.jobs`"""

    def list_causes(self, **query: Unpack[JobsListCausesQuery]) -> Causes:
        """Shows why the newest dead letters were discarded: failures of a handler with the same kind and the
        same message, but for numbers, ids and quotations, count as one cause.
        """
        answer: Causes = self._call('GET', '/api/v1/failures', (), dict(query))
        return answer

    def list(self, **query: Unpack[JobsListQuery]) -> JobPage:
        """Lists jobs that match, the newest first if `sort` does not say otherwise."""
        answer: JobPage = self._call('GET', '/api/v1/jobs', (), dict(query))
        return answer

    def enqueue(self, body: NewJobs) -> AcceptedJobs:
        """Enqueues one job or an array of jobs, all or none; or lines of jobs, each alone."""
        answer: AcceptedJobs = self._call('POST', '/api/v1/jobs', (), {}, body)
        return answer

    def cancel_all(self, body: CancelBody | None = None, **query: Unpack[JobsCancelAllQuery]) -> Many:
        """Asks for jobs to be stopped: one page of those that match. `state` is required."""
        answer: Many = self._call('POST', '/api/v1/jobs/cancel', (), dict(query), body or {})
        return answer

    def count(self, **query: Unpack[JobsCountQuery]) -> Count:
        """Counts the jobs that match. A request examines a bounded number of jobs: if `complete` is false, there
        are at least as many, and a request with `next_cursor` as `cursor` counts on. `limit` is not for
        counts.
        """
        answer: Count = self._call('GET', '/api/v1/jobs/count', (), dict(query))
        return answer

    def set_priority_of_all(self, body: PriorityBody, **query: Unpack[JobsSetPriorityOfAllQuery]) -> Many:
        """Gives jobs that have not ended another priority, which holds from their next attempt: one page of
        those that match. `state` is required.
        """
        answer: Many = self._call('POST', '/api/v1/jobs/priority', (), dict(query), body)
        return answer

    def purge_all(self, **query: Unpack[JobsPurgeAllQuery]) -> Many:
        """Forgets jobs that have ended: one page of those that match. `state` is required."""
        answer: Many = self._call('POST', '/api/v1/jobs/purge', (), dict(query), {})
        return answer

    def retry_all(self, body: RetryBody | None = None, **query: Unpack[JobsRetryAllQuery]) -> Many:
        """Runs discarded or cancelled jobs again: one page of those that match. `state` is required."""
        answer: Many = self._call('POST', '/api/v1/jobs/retry', (), dict(query), body or {})
        return answer

    def show(self, id: str) -> Job:
        """Shows all of a job."""
        answer: Job = self._call('GET', '/api/v1/jobs/{id}', (id,), {})
        return answer

    def attempts(self, id: str, **query: Unpack[JobsAttemptsQuery]) -> AttemptPage:
        """Shows the attempts of a job, first to last, and the one that runs. Of many, the latest 100 are kept at
        least.
        """
        answer: AttemptPage = self._call('GET', '/api/v1/jobs/{id}/attempts', (id,), dict(query))
        return answer

    def cancel(self, id: str, body: CancelBody | None = None) -> Cancel:
        """Asks for a job to be stopped."""
        answer: Cancel = self._call('POST', '/api/v1/jobs/{id}/cancel', (id,), {}, body or {})
        return answer

    def logs(self, id: str, **query: Unpack[JobsLogsQuery]) -> LinePage:
        """Shows what a job has logged, oldest first."""
        answer: LinePage = self._call('GET', '/api/v1/jobs/{id}/logs', (id,), dict(query))
        return answer

    def set_priority(self, id: str, body: PriorityBody) -> Job:
        """Gives a job that has not ended another priority, which holds from its next attempt."""
        answer: Job = self._call('POST', '/api/v1/jobs/{id}/priority', (id,), {}, body)
        return answer

    def purge(self, id: str) -> Job:
        """Forgets a job that has ended, with its result and attempts, and shows what it was."""
        answer: Job = self._call('POST', '/api/v1/jobs/{id}/purge', (id,), {}, {})
        return answer

    def reschedule(self, id: str, body: RescheduleBody) -> Job:
        """Moves the start of a job that waits."""
        answer: Job = self._call('POST', '/api/v1/jobs/{id}/reschedule', (id,), {}, body)
        return answer

    def retry(self, id: str, body: RetryBody | None = None) -> Job:
        """Runs a discarded or cancelled job again. A deadline that has passed is removed, and `removed_deadline`
        shows it. The job is pending while jobs that it depends on have not ended as it needs. With `force` it
        waits for none of them, and neither does a job that is pending already.
        """
        answer: Job = self._call('POST', '/api/v1/jobs/{id}/retry', (id,), {}, body or {})
        return answer

    def wait(self, id: str, **query: Unpack[JobsWaitQuery]) -> Job:
        """Waits until a job ends, at most as long as asked for, and shows it."""
        answer: Job = self._call('GET', '/api/v1/jobs/{id}/wait', (id,), dict(query))
        return answer

    def show_trends(self, **query: Unpack[JobsShowTrendsQuery]) -> Trend:
        """Shows how many jobs came and went at this node, and how long they waited and ran, step by step."""
        answer: Trend = self._call('GET', '/api/v1/trends', (), dict(query))
        return answer


class BatchesApi(Group):
    """`client.api.batches`"""

    def list(self, **query: Unpack[BatchesListQuery]) -> BatchPage:
        """Lists the batches, newest first."""
        answer: BatchPage = self._call('GET', '/api/v1/batches', (), dict(query))
        return answer

    def new_batch(self, body: NewBatch) -> MadeBatch:
        """Makes a batch with its first jobs, all or nothing."""
        answer: MadeBatch = self._call('POST', '/api/v1/batches', (), {}, body)
        return answer

    def show_batch(self, id: str) -> Batch:
        """Shows one batch."""
        answer: Batch = self._call('GET', '/api/v1/batches/{id}', (id,), {})
        return answer

    def cancel_batch(self, id: str, body: BatchCancel | None = None) -> Batch:
        """Closes a batch and cancels its jobs. Large batches are cancelled in slices, so some jobs may still start."""
        answer: Batch = self._call('POST', '/api/v1/batches/{id}/cancel', (id,), {}, body or {})
        return answer

    def close_batch(self, id: str) -> Batch:
        """Closes a batch: no more jobs may be added, except by its own jobs."""
        answer: Batch = self._call('POST', '/api/v1/batches/{id}/close', (id,), {}, {})
        return answer

    def add_to_batch(self, id: str, body: NewJobs) -> List[Accepted]:
        """Adds one job or an array of jobs to an open batch, all or none."""
        answer: List[Accepted] = self._call('POST', '/api/v1/batches/{id}/jobs', (id,), {}, body)
        return answer


class QueuesApi(Group):
    """`client.api.queues`"""

    def list(self) -> QueuePage:
        """Lists all queues that have or had jobs or are paused."""
        answer: QueuePage = self._call('GET', '/api/v1/queues', (), {})
        return answer

    def remove(self, name: str) -> RemovedQueue:
        """Removes a queue that has no jobs."""
        answer: RemovedQueue = self._call('DELETE', '/api/v1/queues/{name}', (name,), {})
        return answer

    def show(self, name: str) -> Queue:
        """Shows one queue."""
        answer: Queue = self._call('GET', '/api/v1/queues/{name}', (name,), {})
        return answer

    def pause(self, name: str, body: PauseQueue | None = None) -> Queue:
        """Starts no more jobs of a queue; running ones continue."""
        answer: Queue = self._call('POST', '/api/v1/queues/{name}/pause', (name,), {}, body or {})
        return answer

    def resume(self, name: str) -> Queue:
        """Starts jobs of a queue again."""
        answer: Queue = self._call('POST', '/api/v1/queues/{name}/resume', (name,), {}, {})
        return answer


class LimitsApi(Group):
    """`client.api.limits`"""

    def list(self) -> LimitPage:
        """Lists the limits by name."""
        answer: LimitPage = self._call('GET', '/api/v1/limits', (), {})
        return answer

    def remove(self, name: str) -> RemovedLimit:
        """Removes a limit. Jobs no longer wait for it."""
        answer: RemovedLimit = self._call('DELETE', '/api/v1/limits/{name}', (name,), {})
        return answer

    def show(self, name: str, **query: Unpack[LimitsShowQuery]) -> Limit:
        """Shows a limit with its fullest keys."""
        answer: Limit = self._call('GET', '/api/v1/limits/{name}', (name,), dict(query))
        return answer

    def set(self, name: str, body: NewLimit) -> Limit:
        """Sets a limit, new or in place of the one with its name. Jobs that were enqueued before keep their keys."""
        answer: Limit = self._call('PUT', '/api/v1/limits/{name}', (name,), {}, body)
        return answer


class SchedulesApi(Group):
    """`client.api.schedules`"""

    def list(self, **query: Unpack[SchedulesListQuery]) -> SchedulePage:
        """Lists the schedules by name."""
        answer: SchedulePage = self._call('GET', '/api/v1/schedules', (), dict(query))
        return answer

    def remove(self, name: str) -> RemovedSchedule:
        """Removes a schedule. The jobs that it has enqueued stay."""
        answer: RemovedSchedule = self._call('DELETE', '/api/v1/schedules/{name}', (name,), {})
        return answer

    def show(self, name: str) -> Schedule:
        """Shows one schedule."""
        answer: Schedule = self._call('GET', '/api/v1/schedules/{name}', (name,), {})
        return answer

    def set(self, name: str, body: NewSchedule) -> Schedule:
        """Sets a schedule, new or in place of the one with its name."""
        answer: Schedule = self._call('PUT', '/api/v1/schedules/{name}', (name,), {}, body)
        return answer

    def backfill(self, name: str, body: BackfillBody) -> TriggeredJobs:
        """Enqueues a job for each nominal time of a schedule in a range, even if earlier ones run: at most
        1,000, all or none.
        """
        answer: TriggeredJobs = self._call('POST', '/api/v1/schedules/{name}/backfill', (name,), {}, body)
        return answer

    def latest_firings(self, name: str) -> FiringPage:
        """Shows what became of the latest firings of a schedule, newest first: at most 100."""
        answer: FiringPage = self._call('GET', '/api/v1/schedules/{name}/firings', (name,), {})
        return answer

    def coming_firings(self, name: str, **query: Unpack[SchedulesComingFiringsQuery]) -> ComingFiringPage:
        """Shows the times at which a schedule will fire."""
        answer: ComingFiringPage = self._call('GET', '/api/v1/schedules/{name}/next', (name,), dict(query))
        return answer

    def pause(self, name: str) -> Schedule:
        """Stops a schedule from firing until it is resumed. Nominal times in between are not made up for."""
        answer: Schedule = self._call('POST', '/api/v1/schedules/{name}/pause', (name,), {}, {})
        return answer

    def resume(self, name: str) -> Schedule:
        """Lets a paused schedule fire again."""
        answer: Schedule = self._call('POST', '/api/v1/schedules/{name}/resume', (name,), {}, {})
        return answer

    def trigger(self, name: str) -> TriggeredJobs:
        """Enqueues the job of a schedule now, even if an earlier one runs."""
        answer: TriggeredJobs = self._call('POST', '/api/v1/schedules/{name}/trigger', (name,), {}, {})
        return answer


class StateApi(Group):
    """`client.api.state`"""

    def spaces(self, **query: Unpack[StateSpacesQuery]) -> StateSpacePage:
        """Lists the spaces that have state."""
        answer: StateSpacePage = self._call('GET', '/api/v1/state', (), dict(query))
        return answer

    def remove_keys(self, space: str, **query: Unpack[StateRemoveKeysQuery]) -> RemovedState:
        """Removes the keys of a space, at most 1,000."""
        answer: RemovedState = self._call('DELETE', '/api/v1/state/{space}', (space,), dict(query))
        return answer

    def keys(self, space: str, **query: Unpack[StateKeysQuery]) -> StateKeyPage:
        """Lists the keys of a space, in the order of their bytes."""
        answer: StateKeyPage = self._call('GET', '/api/v1/state/{space}', (space,), dict(query))
        return answer

    def remove(self, space: str, **query: Unpack[StateRemoveQuery]) -> RemovedState:
        """Removes a key."""
        answer: RemovedState = self._call('DELETE', '/api/v1/state/{space}/value', (space,), dict(query))
        return answer

    def value(self, space: str, **query: Unpack[StateValueQuery]) -> StateValue:
        """Shows the value of a key."""
        answer: StateValue = self._call('GET', '/api/v1/state/{space}/value', (space,), dict(query))
        return answer

    def set(self, space: str, body: SetStateBody, **query: Unpack[StateSetQuery]) -> StateValue:
        """Writes a key. The quotas of handlers do not count."""
        answer: StateValue = self._call('PUT', '/api/v1/state/{space}/value', (space,), dict(query), body)
        return answer


class HandlersApi(Group):
    """`client.api.handlers`"""

    def list(self) -> HandlerPage:
        """Lists all deployed handlers."""
        answer: HandlerPage = self._call('GET', '/api/v1/handlers', (), {})
        return answer

    def show(self, name: str) -> Handler:
        """Shows one handler with its schemas."""
        answer: Handler = self._call('GET', '/api/v1/handlers/{name}', (name,), {})
        return answer


class ComponentsApi(Group):
    """`client.api.components`"""

    def list(self) -> RevisionPage:
        """Lists the current revisions of all components."""
        answer: RevisionPage = self._call('GET', '/api/v1/components', (), {})
        return answer

    def remove(self, name: str) -> Removed:
        """Forgets a component that no job needs."""
        answer: Removed = self._call('DELETE', '/api/v1/components/{name}', (name,), {})
        return answer

    def show(self, name: str) -> Component:
        """Shows all revisions of a component."""
        answer: Component = self._call('GET', '/api/v1/components/{name}', (name,), {})
        return answer

    def rollback(self, name: str, body: RollbackBody) -> Deployed:
        """Goes back to an earlier revision."""
        answer: Deployed = self._call('POST', '/api/v1/components/{name}/rollback', (name,), {}, body)
        return answer


class RunnersApi(Group):
    """`client.api.runners`"""

    def list(self) -> RunnerPoolPage:
        """Lists the pools of foreign runners, those of all nodes that live. What other nodes have is as they
        reported it with their last heartbeat.
        """
        answer: RunnerPoolPage = self._call('GET', '/api/v1/runners', (), {})
        return answer

    def show(self, name: str, **query: Unpack[RunnersShowQuery]) -> RunnerPool:
        """Shows one pool of foreign runners: that of this host if it has one of the name, else that of another node."""
        answer: RunnerPool = self._call('GET', '/api/v1/runners/{name}', (name,), dict(query))
        return answer

    def restart(self, name: str, body: RestartBody | None = None) -> RunnerPool:
        """Restarts the runners of a pool of this host, each once its attempts have ended; until then it takes no
        others.
        """
        answer: RunnerPool = self._call('POST', '/api/v1/runners/{name}/restart', (name,), {}, body or {})
        return answer


class NodesApi(Group):
    """`client.api.nodes`"""

    def list(self) -> NodePage:
        """Lists the nodes that share the store, also those that have gone in the last day."""
        answer: NodePage = self._call('GET', '/api/v1/nodes', (), {})
        return answer

    def show(self, id: str) -> Node:
        """Shows one node."""
        answer: Node = self._call('GET', '/api/v1/nodes/{id}', (id,), {})
        return answer

    def drain(self, id: str) -> AskedNode:
        """Lets a node start no more jobs. What runs there may end; other nodes run the rest. It stays so when
        the node starts again.
        """
        answer: AskedNode = self._call('POST', '/api/v1/nodes/{id}/drain', (id,), {}, {})
        return answer

    def resume(self, id: str) -> AskedNode:
        """Lets a node start jobs again."""
        answer: AskedNode = self._call('POST', '/api/v1/nodes/{id}/resume', (id,), {}, {})
        return answer


class TokensApi(Group):
    """`client.api.tokens`"""

    def list(self) -> TokenPage:
        """Lists the tokens that allow no more than the caller may do."""
        answer: TokenPage = self._call('GET', '/api/v1/tokens', (), {})
        return answer

    def create(self, body: NewTokenBody) -> MintedToken:
        """Makes a token. The answer has its text, which is kept nowhere."""
        answer: MintedToken = self._call('POST', '/api/v1/tokens', (), {}, body)
        return answer

    def show_caller(self) -> Caller:
        """Shows who calls, what it may do and what is left of its quotas."""
        answer: Caller = self._call('GET', '/api/v1/tokens/self', (), {})
        return answer

    def revoke(self, id: str) -> Revoked:
        """Revokes a token. From then on it is refused, and its open requests end."""
        answer: Revoked = self._call('DELETE', '/api/v1/tokens/{id}', (id,), {})
        return answer

    def show(self, id: str) -> Token:
        """Shows one token."""
        answer: Token = self._call('GET', '/api/v1/tokens/{id}', (id,), {})
        return answer

    def rotate(self, id: str, body: RotateBody | None = None) -> MintedToken:
        """Gives a token another text. The one before counts as long as asked for."""
        answer: MintedToken = self._call('POST', '/api/v1/tokens/{id}/rotate', (id,), {}, body or {})
        return answer


class WebhooksApi(Group):
    """`client.api.webhooks`"""

    def test(self, body: WebhookTest) -> Accepted:
        """Enqueues a delivery of an empty event, to see whether a receiver answers. It is a job of the queue
        `webhooks`.
        """
        answer: Accepted = self._call('POST', '/api/v1/webhooks/test', (), {}, body)
        return answer


class HostApi(Group):
    """`client.api.host`"""

    def list_audit(self, **query: Unpack[HostListAuditQuery]) -> AuditEntryPage:
        """Lists entries of the audit, oldest first. A page may be empty although more follow."""
        answer: AuditEntryPage = self._call('GET', '/api/v1/audit', (), dict(query))
        return answer

    def alive(self) -> Health:
        """Tells that the host lives."""
        answer: Health = self._call('GET', '/healthz', (), {})
        return answer

    def ready(self) -> Health:
        """Tells whether the host takes work: its store answers, has room and is where it was, and it has not
        been asked to stop or to drain.
        """
        answer: Health = self._call('GET', '/readyz', (), {})
        return answer


class Api:
    """All operations of the API, in groups."""

    def __init__(self, call: Callable[..., Any]):
        self.jobs = JobsApi(call)
        self.batches = BatchesApi(call)
        self.queues = QueuesApi(call)
        self.limits = LimitsApi(call)
        self.schedules = SchedulesApi(call)
        self.state = StateApi(call)
        self.handlers = HandlersApi(call)
        self.components = ComponentsApi(call)
        self.runners = RunnersApi(call)
        self.nodes = NodesApi(call)
        self.tokens = TokensApi(call)
        self.webhooks = WebhooksApi(call)
        self.host = HostApi(call)
