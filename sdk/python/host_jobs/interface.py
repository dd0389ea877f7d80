"""What the host offers to handlers. Generated from the WIT package host:jobs@1.2.0."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, Union


@dataclass
class Context:
    """Describes the job that a handler executes, and the current attempt."""

    job_id: str
    """Identifies the job; the same for all attempts."""
    request_id: str
    """Identifies this attempt."""
    function: str
    """The handler's name as given when the job was enqueued."""
    queue: str
    """The queue the job waited in."""
    protocol: str
    """The protocol by which the job arrived: `http`, `cli`, `handler`, or the name of a wire."""
    attempt: int
    """The number of this attempt, from 1."""
    max_attempts: int | None
    """The maximum number of attempts that count, if there is a limit. An attempt that the host lost may
    not count."""
    enqueued_at: str
    """When the job was accepted (RFC 3339)."""
    deadline: str | None
    """After this time no attempt may run (RFC 3339)."""
    worker_id: str | None
    """The worker that executes the attempt."""
    trace: list[tuple[str, str]]
    """W3C trace context: `traceparent`, `tracestate`."""
    attributes: list[tuple[str, str]]
    """Other data that the sender attached: pairs of name and value."""


class Category(Enum):
    """Who must act on an error."""

    USER_CODE = "user-code"
    """The author of the handler."""
    DATA_QUALITY = "data-quality"
    """The sender of the params."""
    INFRASTRUCTURE = "infrastructure"
    """The operator of the host."""
    CONFIGURATION = "configuration"
    """The person who deployed or configured the handler."""
    TIMEOUT = "timeout"
    """The handler took too long."""
    CANCELLED = "cancelled"
    """The job was cancelled on request."""


@dataclass
class JobError:
    """Why a handler failed."""

    category: Category
    """Who must act."""
    kind: str
    """The handler's own name for the error."""
    message: str
    """One sentence for a person."""
    code: str | None = None
    """The handler's own code."""
    details: str | None = None
    """Additional data."""
    stack: str | None = None
    """A stack trace, if the language has one."""
    retryable: bool | None = None
    """Whether another attempt may help. If absent, the category decides."""


@dataclass
class RetryRequest:
    """The handler asks for another attempt."""

    reason: str
    """Why another attempt is needed."""
    after_ms: int | None = None
    """How long to wait, in milliseconds. If absent, the job's backoff decides."""


@dataclass
class FailureError:
    """The handler failed."""

    value: JobError


@dataclass
class FailureRetry:
    """The handler asks for another attempt."""

    value: RetryRequest


@dataclass
class FailureCancelled:
    """The handler stopped on request. Contains its partial results, if any."""

    value: str | None


Failure = Union[FailureError, FailureRetry, FailureCancelled]
"""How a handler ends without a result."""


@dataclass
class HandlerInfo:
    """Describes one handler of a component."""

    name: str
    """The name: 1 to 128 of the characters `A-Z a-z 0-9 _ . : / -`."""
    description: str | None = None
    """What the handler does, for people."""
    params_schema: str | None = None
    """The JSON Schema of the params."""
    result_schema: str | None = None
    """The JSON Schema of the result."""


class JobsErrorKind(Enum):
    """Who must act on an error."""

    NOT_GRANTED = "not-granted"
    """The manifest does not grant it."""
    INVALID_REQUEST = "invalid-request"
    """The request is invalid, or the host refuses it."""
    LIMIT_REACHED = "limit-reached"
    """A limit is reached."""
    UNAVAILABLE = "unavailable"
    """The host cannot do it now. Another attempt may help."""


@dataclass(eq=False)
class JobsError(Exception):
    """Why no job is enqueued."""

    kind: JobsErrorKind
    """Who must act."""
    message: str
    """One sentence for a person."""


class Jobs(Protocol):
    """Enqueues jobs: of the handlers and in the queues that the manifest names."""

    def enqueue(self, jobs: str) -> list[str]:
        """Enqueues one job or an array of jobs, all or none, as `POST /api/v1/jobs` takes them. They exist exactly
        if this attempt completes. Returns their ids, in order. If a job with the same unique key exists then, none
        is added.

        Raises JobsError."""
        ...

    def enqueue_now(self, jobs: str) -> list[str]:
        """Enqueues them now. They are on disk before it returns, and stay if this attempt does not complete: an
        attempt that follows may enqueue them again, unless a unique key prevents it. Returns their ids, in order:
        of the job that has the unique key, if there is one.

        Raises JobsError."""
        ...


class Artifacts(Protocol):
    """Files that a job produces, and those that it reads. What it produces is kept with the job exactly if this attempt completes."""

    def create(self, name: str, content_type: str | None) -> int:
        """Begins a file and returns its number. A name has 1 to 128 of the characters `A-Z a-z 0-9 _ . -` and begins with none of
        `.` and `-`. Without a content type, it is `application/octet-stream`.

        Raises JobsError."""
        ...

    def write(self, artifact: int, content: bytes) -> None:
        """Appends to a file, at most 1 MiB.

        Raises JobsError."""
        ...

    def open(self, name: str) -> int:
        """Opens a file that the job was enqueued with, by its name among the job's `files`, and returns its number.

        Raises JobsError."""
        ...

    def read(self, artifact: int, bytes_max: int) -> bytes:
        """Returns what follows in a file that was opened: at most so many bytes and at most 1 MiB, and none at its end.

        Raises JobsError."""
        ...

    def close(self, artifact: int) -> None:
        """Ends a file. One that was created is on disk before this returns, and is not kept unless it is closed.

        Raises JobsError."""
        ...


class Control(Protocol):
    """Cancellation, time and progress of a running handler."""

    def cancelled(self) -> str | None:
        """Returns the reason if the job has been asked to stop. A handler that checks regularly and
        returns `cancelled` can keep partial results. A handler that does not is stopped by force."""
        ...

    def remaining_ms(self) -> int | None:
        """Returns how much of the time limit is left, in milliseconds."""
        ...

    def progress(self, percent: float | None, message: str) -> None:
        """Reports progress: 0 to 100 percent if known, and what the job is doing. The host may skip
        reports that follow each other quickly."""
        ...

    def sleep_ms(self, ms: int) -> None:
        """Sleeps without using CPU."""
        ...


@dataclass
class HttpRequest:
    """A request with its whole body."""

    method: str
    """`GET`, `POST`, …"""
    url: str
    """An absolute URL that starts with `https://` or `http://`."""
    headers: list[tuple[str, str]]
    """Pairs of name and value. Headers of the connection, such as `host`, cannot be set."""
    body: bytes
    """Empty if there is none."""
    timeout_ms: int | None = None
    """A time limit, in milliseconds. The manifest's is the longest."""


@dataclass
class HttpResponse:
    """A response with its whole body. Redirects are not followed."""

    status: int
    """The status code."""
    headers: list[tuple[str, str]]
    """Pairs of name, in lower case, and value."""
    body: bytes
    """The body as the server sent it."""


class HttpErrorKind(Enum):
    """Who must act on an error."""

    NOT_GRANTED = "not-granted"
    """The manifest does not grant the request, or the host does not allow its server."""
    INVALID_REQUEST = "invalid-request"
    """The request is invalid."""
    UNREACHABLE = "unreachable"
    """The server cannot be reached, or broke off."""
    TIMED_OUT = "timed-out"
    """The server took too long."""
    TOO_LARGE = "too-large"
    """The response is too large."""
    LIMIT_REACHED = "limit-reached"
    """The attempt has made as many requests as it may."""
    UNAVAILABLE = "unavailable"
    """The host cannot send requests now. Another attempt may help."""


@dataclass(eq=False)
class HttpError(Exception):
    """Why there is no response."""

    kind: HttpErrorKind
    """Who must act."""
    message: str
    """One sentence for a person."""


class Http(Protocol):
    """Requests to HTTP servers. The host sends them for the handler: to the servers that the manifest names, with
    the headers that the manifest adds. Secrets in those headers are never visible to the handler."""

    def send(self, request: HttpRequest) -> HttpResponse:
        """Sends a request and waits for the response.

        Raises HttpError."""
        ...


class Limits(Protocol):
    """The limits of the job: how many jobs with its keys run at once or start per period."""

    def hold(self, limit: str, ms: int) -> None:
        """Holds the key that the job has of a limit, for example because a server has answered 429: no job of the key
        starts within this time, in milliseconds, at most 86,400,000 (24 hours). A longer hold stays. It is stored before
        this returns, whatever becomes of the attempt. If the attempt then asks for a retry, it does not count. The
        handler's manifest must name the limit.

        Raises JobsError."""
        ...


class LogLevel(Enum):
    """The severity of a line."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class Log(Protocol):
    """The job's log."""

    def write(self, level: LogLevel, message: str, fields: list[tuple[str, str]]) -> None:
        """Writes one line. Lines beyond the job's log limit are counted and dropped."""
        ...

    def write_json(self, level: LogLevel, message: str, fields: list[tuple[str, str]]) -> None:
        """Writes one line whose fields keep their types: each value is JSON. A value that is not becomes a string."""
        ...


class Secrets(Protocol):
    """Secrets whose values a handler needs itself, for example to sign. Prefer headers of `http`, which carry secrets that
    no handler sees."""

    def reveal(self, name: str) -> str:
        """Returns the value of a secret that the manifest lets the handler see. It is recorded in the audit. The host
        hides the value in the log, the progress, the result and the failure of this attempt.

        Raises JobsError."""
        ...


@dataclass
class SqlRows:
    """What a statement returned."""

    columns: list[str]
    """The names of the columns."""
    rows: str
    """An array with an array for each row. Booleans, integers, floating-point numbers, JSON and arrays of these are values of
    JSON; all other types, such as `numeric` and `timestamptz`, are strings as the database writes them."""
    affected: int
    """How many rows it returned or changed, 4,294,967,295 at most."""


class SqlErrorKind(Enum):
    """What went wrong."""

    REFUSED = "refused"
    """The database answered with an error; `code` is its SQLSTATE."""
    NOT_GRANTED = "not-granted"
    """The manifest does not grant the database."""
    INVALID_REQUEST = "invalid-request"
    """The statement or its parameters are invalid, or the transaction is over."""
    UNREACHABLE = "unreachable"
    """The database cannot be reached, or does not let the host sign in."""
    TIMED_OUT = "timed-out"
    """It takes too long to connect."""
    TOO_LARGE = "too-large"
    """The statement or the rows are too large."""
    LIMIT_REACHED = "limit-reached"
    """The attempt has used up what the manifest grants."""
    UNAVAILABLE = "unavailable"
    """The host cannot do it now; another attempt may help."""


@dataclass(eq=False)
class SqlError(Exception):

    kind: SqlErrorKind
    code: str | None
    """The SQLSTATE, if the database answered."""
    message: str
    """One sentence for a person."""


class Sql(Protocol):
    """Statements for databases that the handler's manifest names. The host signs in and keeps connections; the handler sees no
    password."""

    def query(self, database: str, statement: str, params: str) -> SqlRows:
        """Runs one statement in a transaction of its own. `params` is an array of the values of `$1`, `$2` and so on.

        Raises SqlError."""
        ...

    def begin(self, database: str) -> int:
        """Begins a transaction, whose statements take effect together, and returns its number. It is rolled back with the end of the
        run unless it is committed.

        Raises SqlError."""
        ...

    def query_in(self, transaction: int, statement: str, params: str) -> SqlRows:
        """Runs one statement of a transaction.

        Raises SqlError."""
        ...

    def commit(self, transaction: int) -> None:
        """Makes a transaction take effect. Fails if one of its statements has failed.

        Raises SqlError."""
        ...

    def rollback(self, transaction: int) -> None:
        """Ends a transaction without effect.

        Raises SqlError."""
        ...


class State(Protocol):
    """Values that handlers keep from one attempt to another, by key. Each handler has a space of its own; the manifest
    names those that it shares with others. Keys have 1 to 512 bytes, values at most 1 MiB.

    What an attempt sets is visible to itself at once, and to others exactly if it completes. Functions with `now` in
    their names change the store at once."""

    def get(self, space: str | None, key: str) -> bytes | None:
        """Returns the value of a key.

        Raises JobsError."""
        ...

    def set(self, space: str | None, key: str, value: bytes) -> None:
        """Sets a key.

        Raises JobsError."""
        ...

    def delete(self, space: str | None, key: str) -> None:
        """Removes a key.

        Raises JobsError."""
        ...

    def compare_and_set(self, space: str | None, key: str, expected: bytes | None, value: bytes | None) -> bool:
        """Sets a key, or removes it without `value`, if it has the `expected` value, or none. Returns whether it has.
        If it has another when the attempt completes, the attempt fails and is retried.

        Raises JobsError."""
        ...

    def list(self, space: str | None, prefix: str, after: str | None) -> list[str]:
        """Lists keys that start with `prefix`, in the order of their bytes, after the key `after`. Returns at most
        1,000; none if there are no more.

        Raises JobsError."""
        ...

    def set_now(self, space: str | None, key: str, value: bytes) -> None:
        """Sets a key now.

        Raises JobsError."""
        ...

    def delete_now(self, space: str | None, key: str) -> None:
        """Removes a key now.

        Raises JobsError."""
        ...

    def compare_and_set_now(self, space: str | None, key: str, expected: bytes | None, value: bytes | None) -> bool:
        """Sets or removes a key now, if it has the `expected` value. Returns whether it had.

        Raises JobsError."""
        ...


@dataclass
class StepsProgressNew:
    """Nothing: do it."""


@dataclass
class StepsProgressBegun:
    """Its last checkpoint: continue behind it."""

    value: str


@dataclass
class StepsProgressDone:
    """Its result. The step is over."""

    value: str


@dataclass
class StepsProgressFailed:
    """Why it failed. The step is over, because the handler has continued with another one."""

    value: str


StepsProgress = Union[StepsProgressNew, StepsProgressBegun, StepsProgressDone, StepsProgressFailed]
"""What the journal has of a step."""


class Steps(Protocol):
    """Parts of a job that are done once, in the order in which the handler begins them. The host keeps a journal of them with the
    job: an attempt that follows runs the handler from its start, and gets what is kept of each. One step runs at a time.

    What the handler enqueues, sets and closes in a step is committed together with the step, and not with the attempt's end.
    If a handler begins another step than an earlier attempt did at this point, the host ends the attempt and discards the job."""

    def begin(self, name: str) -> StepsProgress:
        """Begins the next step. A name has 1 to 128 of the characters `A-Z a-z 0-9 _ . : / -`. Further steps of the same name
        are kept as `NAME#2` and so on.

        Raises JobsError."""
        ...

    def checkpoint(self, checkpoint: str) -> None:
        """Commits how far the step is, with what was written since it began or since its last checkpoint. It is on disk before
        this returns. A checkpoint has at most 64 KiB. If it is refused, the step has failed.

        Raises JobsError."""
        ...

    def complete(self, result: str) -> None:
        """Ends the step with its result, at most 64 KiB, and commits it like a checkpoint.

        Raises JobsError."""
        ...

    def fail(self, error: str) -> None:
        """Ends the step without a result: what was written since its last checkpoint is dropped. If the handler then begins another
        step, the failure is kept; otherwise the next attempt does this step again.

        Raises JobsError."""
        ...


class Host(Protocol):
    """All that the host offers."""

    @property
    def jobs(self) -> Jobs: ...

    @property
    def artifacts(self) -> Artifacts: ...

    @property
    def control(self) -> Control: ...

    @property
    def http(self) -> Http: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def log(self) -> Log: ...

    @property
    def secrets(self) -> Secrets: ...

    @property
    def sql(self) -> Sql: ...

    @property
    def state(self) -> State: ...

    @property
    def steps(self) -> Steps: ...
