"""A mock host for tests of handlers in plain Python."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from . import handlers, network
from .ctx import Ctx, NewJob
from .http import Response
from .interface import (
    Context,
    HttpError,
    HttpErrorKind,
    HttpRequest,
    HttpResponse,
    JobsError,
    JobsErrorKind,
    LogLevel,
    SqlError,
    SqlErrorKind,
    SqlRows,
    Steps,
)
from .replay import answers
from .sql import Answer
from .values import to_json

_Key = tuple["str | None", str]

_HOLD_MS_MAX = 86_400_000
"""The longest time for which a key of a limit is held, in milliseconds."""


@dataclass
class Line:
    """A line of the job's log."""

    level: LogLevel
    message: str
    fields: dict[str, Any]


class MockHost:
    """Takes the place of the host in a test, and records what the handler does.

    `replay` is a recording that answers requests: a file in the format HAR, which developer tools of browsers and proxies
    such as mitmproxy write. A request gets the responses of the entries with its method and URL, and its body if
    `postData` has a `text`: each once, in order, and then the last one.

    Without `answer` and `replay` no request is granted, without `secrets` no secret, and with `store=False` neither jobs nor state.
    Without `limits` the job has none. `sql` has what answers statements, by the name of the database; a transaction begins with the
    statement `BEGIN` and ends with `COMMIT` or `ROLLBACK`.
    """

    def __init__(
        self,
        *,
        attempt: int = 1,
        attributes: Mapping[str, str] | None = None,
        answer: Callable[[HttpRequest], Response] | None = None,
        replay: str | None = None,
        state: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
        limits: Sequence[str] = (),
        sql: Mapping[str, Answer] | None = None,
        files: Mapping[str, bytes] | None = None,
        store: bool = True,
    ) -> None:
        self.job = Context(
            job_id="test",
            request_id=f"test-{attempt}",
            function="",
            queue="",
            protocol="test",
            attempt=attempt,
            max_attempts=None,
            enqueued_at="",
            deadline=None,
            worker_id=None,
            trace=[],
            attributes=list((attributes or {}).items()),
        )
        self.reports: list[tuple[float | None, str]] = []
        """All reported progress: percent and message."""
        self.logs: list[Line] = []
        """All lines of the log."""
        self.requests: list[HttpRequest] = []
        """All requests to HTTP servers."""
        self.enqueued: list[NewJob] = []
        """The jobs that exist exactly if their attempt completes, without those of attempts that did not."""
        self.enqueued_now: list[NewJob] = []
        """The jobs that were enqueued immediately."""
        self.holds: list[tuple[str, int]] = []
        """The limits whose keys were held, each with the time in milliseconds, in order."""
        self.statements: list[tuple[str, str]] = []
        """The statements for databases, each with the name of its database, in order."""
        self.artifacts_kept: dict[str, bytes] = {}
        """The content of artifacts of attempts that have completed, by their names."""
        self.slept = 0.0
        """All sleeps together, in seconds. The mock does not really sleep."""
        self._answer = answer if replay is None else answers(replay)
        self._secrets, self._limits, self._has_store = dict(secrets or {}), set(limits), store
        self._databases, self._transactions = dict(sql or {}), list[str]()
        self._reason: str | None = None
        self._checks_left: int | None = None
        self._values: dict[_Key, bytes] = {(None, key): _bytes(value) for key, value in (state or {}).items()}
        self._own: dict[_Key, bytes | None] = {}
        self._files = dict(files or {})
        self._artifacts = _Artifacts(self)
        self._kept_jobs = 0

    @property
    def ctx(self) -> Ctx:
        """The context to call a handler with."""
        return Ctx(self.job, self)

    def run(self, function: Callable[[Ctx, Any], Any], params: Any = None) -> Any:
        """Calls a handler as one attempt: what it has enqueued and set is kept if it completes, and dropped if not."""
        return self._attempt(lambda: handlers.finished(function(self.ctx, params)))

    def call(self, name: str, params: Any = None) -> Any:
        """Calls a handler by its name as the host does, with JSON, as one attempt."""
        self.job.function = name
        return json.loads(self._attempt(lambda: handlers.call(self.job, to_json(params), self)))

    def cancel(self, reason: str, *, after_checks: int = 0) -> None:
        """Asks the handler to stop, at its next check for cancellation or after some."""
        self._reason, self._checks_left = reason, after_checks

    def state_of(self, key: str) -> Any:
        """Returns what the handler keeps under a key."""
        value = self._value((None, key))
        return None if value is None else json.loads(value)

    def _attempt(self, run: Callable[[], Any]) -> Any:
        completed = False
        try:
            with network.use(self):
                result = run()
            completed = True
            return result
        finally:
            own, self._own = self._own, {}
            artifacts, self._artifacts = self._artifacts, _Artifacts(self)
            if completed:
                self._kept_jobs = len(self.enqueued)
                self.artifacts_kept.update(artifacts.closed)
                for key, value in own.items():
                    self._store_now(key, value)
            else:
                del self.enqueued[self._kept_jobs :]

    # What follows is what the host offers to handlers.

    @property
    def control(self) -> MockHost:
        return self

    http = jobs = limits = log = secrets = control

    @property
    def artifacts(self) -> _Artifacts:
        return self._artifacts

    @property
    def sql(self) -> _Sql:
        return _Sql(self)

    @property
    def steps(self) -> Steps:
        raise NotImplementedError("handlers in Python have no steps")

    @property
    def state(self) -> _State:
        return _State(self)

    def cancelled(self) -> str | None:
        if self._checks_left:
            self._checks_left -= 1
            return None
        return self._reason

    def remaining_ms(self) -> int | None:
        return None

    def progress(self, percent: float | None, message: str) -> None:
        self.reports.append((percent, message))

    def sleep_ms(self, ms: int) -> None:
        self.slept += ms / 1000

    def write(self, level: LogLevel, message: str, fields: list[tuple[str, str]]) -> None:
        self.logs.append(Line(level, message, dict(fields)))

    def write_json(self, level: LogLevel, message: str, fields: list[tuple[str, str]]) -> None:
        self.logs.append(Line(level, message, {name: json.loads(value) for name, value in fields}))

    def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        if self._answer is None:
            raise HttpError(HttpErrorKind.NOT_GRANTED, "the mock answers no requests; give it `answer` or `replay`")
        answer = self._answer(request)
        return HttpResponse(answer.status_code, list(answer.headers.items()), answer.content)

    def enqueue(self, jobs: str) -> list[str]:
        return self._enqueue(jobs, self.enqueued)

    def enqueue_now(self, jobs: str) -> list[str]:
        return self._enqueue(jobs, self.enqueued_now)

    def hold(self, limit: str, ms: int) -> None:
        if limit not in self._limits:
            raise JobsError(JobsErrorKind.INVALID_REQUEST, f"the job has no limit {limit}; give the mock `limits`")
        if ms > _HOLD_MS_MAX:
            raise JobsError(JobsErrorKind.INVALID_REQUEST, f"a key can be held for at most {_HOLD_MS_MAX} ms (24 hours)")
        self.holds.append((limit, ms))

    def reveal(self, name: str) -> str:
        if name not in self._secrets:
            raise JobsError(JobsErrorKind.NOT_GRANTED, f"the mock has no secret {name}; give it `secrets`")
        return self._secrets[name]

    def _enqueue(self, jobs: str, kept: list[NewJob]) -> list[str]:
        self._check_store()
        first = len(self.enqueued) + len(self.enqueued_now) + 1
        documents = json.loads(jobs)
        kept.extend(_job(document) for document in documents)
        return [f"job-{first + at}" for at in range(len(documents))]

    def _check_store(self) -> None:
        if not self._has_store:
            raise JobsError(JobsErrorKind.NOT_GRANTED, "the mock has no store; see `store`")

    def _value(self, key: _Key) -> bytes | None:
        return self._own[key] if key in self._own else self._values.get(key)

    def _store_now(self, key: _Key, value: bytes | None) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value


class _Artifacts:
    """The artifacts of an attempt."""

    def __init__(self, host: MockHost) -> None:
        self._host, self._open, self._begun = host, dict[int, tuple[str, bytearray]](), 0
        self.closed: dict[str, bytes] = {}
        self._reading: dict[int, io.BytesIO] = {}

    def create(self, name: str, content_type: str | None) -> int:
        self._host._check_store()
        self._begun += 1
        self._open[self._begun] = name, bytearray()
        return self._begun

    def write(self, artifact: int, content: bytes) -> None:
        self._open[artifact][1].extend(content)

    def close(self, artifact: int) -> None:
        if self._reading.pop(artifact, None) is None:
            name, content = self._open.pop(artifact)
            self.closed[name] = bytes(content)

    def open(self, name: str) -> int:
        self._host._check_store()
        if name not in self._host._files:
            raise JobsError(JobsErrorKind.INVALID_REQUEST, f"the mock has no file {name!r}; see MockHost(files=…)")
        self._begun += 1
        self._reading[self._begun] = io.BytesIO(self._host._files[name])
        return self._begun

    def read(self, artifact: int, bytes_max: int) -> bytes:
        return self._reading[artifact].read(bytes_max)


class _Sql:
    """The databases of handlers."""

    def __init__(self, host: MockHost) -> None:
        self._host = host

    def query(self, database: str, statement: str, params: str) -> SqlRows:
        self._host.statements.append((database, statement))
        answer = self._host._databases.get(database)
        if answer is None:
            raise SqlError(SqlErrorKind.NOT_GRANTED, None, f"the mock has no database {database}; give it `sql`")
        rows = answer(statement, json.loads(params))
        return SqlRows(rows.columns, to_json(rows.values), rows.affected)

    def begin(self, database: str) -> int:
        self.query(database, "BEGIN", "[]")
        self._host._transactions.append(database)
        return len(self._host._transactions)

    def query_in(self, transaction: int, statement: str, params: str) -> SqlRows:
        return self.query(self._host._transactions[transaction - 1], statement, params)

    def commit(self, transaction: int) -> None:
        self.query_in(transaction, "COMMIT", "[]")

    def rollback(self, transaction: int) -> None:
        self.query_in(transaction, "ROLLBACK", "[]")


class _State:
    """The state of handlers."""

    def __init__(self, host: MockHost) -> None:
        host._check_store()
        self._host = host

    def get(self, space: str | None, key: str) -> bytes | None:
        return self._host._value((space, key))

    def set(self, space: str | None, key: str, value: bytes) -> None:
        self._host._own[space, key] = value

    def delete(self, space: str | None, key: str) -> None:
        self._host._own[space, key] = None

    def compare_and_set(self, space: str | None, key: str, expected: bytes | None, value: bytes | None) -> bool:
        fits = self.get(space, key) == expected
        if fits:
            self._host._own[space, key] = value
        return fits

    def list(self, space: str | None, prefix: str, after: str | None) -> list[str]:
        known = {**self._host._values, **self._host._own}
        keys = (key for (of, key), value in known.items() if of == space and value is not None)
        return sorted(key for key in keys if key.startswith(prefix) and (after is None or key > after))

    def set_now(self, space: str | None, key: str, value: bytes) -> None:
        self._host._store_now((space, key), value)

    def delete_now(self, space: str | None, key: str) -> None:
        self._host._store_now((space, key), None)

    def compare_and_set_now(self, space: str | None, key: str, expected: bytes | None, value: bytes | None) -> bool:
        fits = self.get(space, key) == expected
        if fits:
            self._host._store_now((space, key), value)
        return fits


def _job(document: dict[str, Any]) -> NewJob:
    known = {name: document.pop(name) for name in list(document) if name in NewJob.__dataclass_fields__}
    return NewJob(**known, others=document)


def _bytes(value: Any) -> bytes:
    return to_json(value).encode()
