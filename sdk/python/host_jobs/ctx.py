"""What a handler is given besides its params."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, fields
from typing import Any, Iterator, Sequence

from . import given, limits
from .artifacts import Artifacts
from .errors import Cancelled
from .http import Http
from .interface import Context, Host, LogLevel
from .sql import Sql
from .values import to_json


@dataclass
class NewJob:
    """A job to enqueue. `others` are further fields, as `POST /api/v1/jobs` takes them."""

    handler: str
    params: Any = None
    queue: str | None = None
    priority: int | None = None
    unique_key: str | None = None
    delay_seconds: float | None = None
    depends_on: list[str | dict[str, str]] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Returns the job as the host takes it."""
        own = {it.name: getattr(self, it.name) for it in fields(self) if it.name not in ("params", "others")}
        if self.delay_seconds is not None:
            own["delay_seconds"] = given.milliseconds(self.delay_seconds, "delay_seconds") / 1000
        stated = {name: value for name, value in own.items() if not (value is None or value == [] or value == {})}
        return {**stated, "params": self.params, **self.others}


class Ctx:
    """The job of a handler, and what the host offers to it."""

    def __init__(self, job: Context, host: Host) -> None:
        self.job = job
        self._host = host

    def attribute(self, name: str) -> str | None:
        """Returns what the sender attached to the job under this name."""
        return dict(self.job.attributes).get(name)

    def cancelled(self) -> str | None:
        """Returns the reason if the job has been asked to stop."""
        return self._host.control.cancelled()

    def check_cancelled(self, partial: Any = None) -> None:
        """Ends the attempt if the job has been asked to stop. Call it in loops."""
        if self.cancelled() is not None:
            raise Cancelled(partial)

    def remaining(self) -> float | None:
        """Returns how many seconds of the time limit are left, if there is one."""
        ms = self._host.control.remaining_ms()
        return None if ms is None else ms / 1000

    def progress(self, percent: float | None, message: object) -> None:
        """Reports progress: 0 to 100 percent, or None if that is not known, and what the job is doing."""
        self._host.control.progress(given.percent(percent), limits.cut(given.text(message)))

    def sleep(self, seconds: float) -> None:
        """Sleeps without using CPU. A negative time is none."""
        self._host.control.sleep_ms(given.milliseconds(seconds, "seconds"))

    def log(self, level: LogLevel, message: object, /, **fields: object) -> None:
        """Writes a line with fields to the job's log. Their values keep their types."""
        if not isinstance(level, LogLevel):
            raise TypeError(f"level must be a LogLevel, not {type(level).__name__}")
        first = itertools.islice(fields.items(), limits.FIELDS_MAX)
        values = [(limits.cut(given.text(name), limits.FIELD_NAME_MAX), _field(value)) for name, value in first]
        self._host.log.write_json(level, limits.cut(given.text(message)), values)

    def debug(self, message: object, /, **fields: object) -> None:
        """Writes a line for the author to the job's log."""
        self.log(LogLevel.DEBUG, message, **fields)

    def info(self, message: object, /, **fields: object) -> None:
        """Writes a line to the job's log."""
        self.log(LogLevel.INFO, message, **fields)

    def warn(self, message: object, /, **fields: object) -> None:
        """Writes a warning to the job's log."""
        self.log(LogLevel.WARN, message, **fields)

    def error(self, message: object, /, **fields: object) -> None:
        """Writes an error to the job's log. The attempt continues."""
        self.log(LogLevel.ERROR, message, **fields)

    @property
    def http(self) -> Http:
        """Sends requests to the servers that the manifest names."""
        return Http(self._host)

    def enqueue(self, job: NewJob) -> str:
        """Enqueues a job that exists exactly if this attempt completes. Returns its id."""
        return self.enqueue_all([job])[0]

    def enqueue_all(self, jobs: Sequence[NewJob]) -> list[str]:
        """Enqueues jobs, all or none, as `enqueue` does. Returns their ids, in order."""
        documents = _documents(jobs)
        return self._host.jobs.enqueue(documents) if documents else []

    def enqueue_now(self, job: NewJob) -> str:
        """Enqueues a job that stays if this attempt does not complete. Give it a unique key: an attempt that follows
        enqueues it again. Returns its id, or that of the job that has the key."""
        return self.enqueue_all_now([job])[0]

    def enqueue_all_now(self, jobs: Sequence[NewJob]) -> list[str]:
        """Enqueues jobs, all or none, as `enqueue_now` does. Returns their ids, in order."""
        documents = _documents(jobs)
        return self._host.jobs.enqueue_now(documents) if documents else []

    @property
    def state(self) -> State:
        """Values that the handler keeps from one attempt to another."""
        return State(self._host)

    def hold(self, limit: str, seconds: float) -> None:
        """Holds the key that the job has of a limit, for 24 hours at most: no job of the key starts within this time, on any
        node. It is stored immediately, whatever becomes of this attempt. If the attempt then raises `Retry`, it does not count."""
        self._host.limits.hold(_name(limit, "limit"), given.milliseconds(seconds, "seconds", least=0))

    def sql(self, name: str) -> Sql:
        """Returns a database that the manifest names: `[[handlers.NAME.sql]]`."""
        return Sql(self._host, _name(name, "the name of a database"))

    @property
    def artifacts(self) -> Artifacts:
        """Files that the job produces: `with ctx.artifacts.create("report.pdf") as file: file.write(b"…")`; and files that it
        was enqueued with: `with ctx.artifacts.open("rows.csv") as file: file.read()`."""
        return Artifacts(self._host)

    def secret(self, name: str) -> str:
        """Returns the value of a secret that the manifest lets the handler see."""
        return self._host.secrets.reveal(_name(name, "the name of a secret"))


class State:
    """Values by key, as JSON. What an attempt sets is stored exactly if it completes."""

    def __init__(self, host: Host, space: str | None = None, at_once: bool = False) -> None:
        self._host, self._space, self._at_once = host, space, at_once

    def now(self) -> State:
        """Returns the same state, stored immediately."""
        return State(self._host, self._space, True)

    def shared(self, space: str) -> State:
        """Returns a space that the manifest shares."""
        return State(self._host, _name(space, "space"), self._at_once)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key."""
        value = self.get_bytes(key)
        return default if value is None else given.read_json(value)

    def set(self, key: str, value: Any) -> None:
        """Sets a key."""
        self.set_bytes(key, _bytes(value))

    def delete(self, key: str) -> None:
        """Removes a key."""
        state = self._host.state
        (state.delete_now if self._at_once else state.delete)(self._space, _key(key))

    def compare_and_set(self, key: str, expected: Any, value: Any) -> bool:
        """Sets a key, or removes it if `value` is None, if it has the expected value, or none. Returns whether it had.
        If it has another when the attempt completes, the attempt fails and is retried."""
        state = self._host.state
        change = state.compare_and_set_now if self._at_once else state.compare_and_set
        old, new = (None if it is None else limits.check_value(_bytes(it)) for it in (expected, value))
        return change(self._space, _key(key), old, new)

    def list(self, prefix: str = "") -> Iterator[str]:
        """Returns the keys that start with `prefix`, in the order of their bytes."""
        after, prefix = None, _name(prefix, "prefix")
        while page := self._host.state.list(self._space, prefix, after):
            yield from page
            after = page[-1]

    def get_bytes(self, key: str) -> bytes | None:
        """Returns the value of a key as it is stored."""
        return self._host.state.get(self._space, _key(key))

    def set_bytes(self, key: str, value: bytes) -> None:
        """Sets a key to bytes."""
        state = self._host.state
        (state.set_now if self._at_once else state.set)(self._space, _key(key), limits.check_value(given.raw(value, "value")))


def _bytes(value: Any) -> bytes:
    return to_json(value).encode()


def _key(key: str) -> str:
    return limits.check_key(given.name(key, "a key of state"))


def _name(value: str, what: str) -> str:
    return limits.check_name(given.name(value, what), what)


def _field(value: object) -> str:
    """Returns a value as JSON. One that is too long becomes a text without its end."""
    written = given.field(value)
    if limits.size(written) <= limits.LINE_MAX:
        return written
    return to_json(limits.cut(given.text(value) if isinstance(value, str) else written))


def _documents(jobs: Sequence[NewJob]) -> str | None:
    """Returns jobs as the host takes them, unless there are none."""
    listed = list(jobs)
    for job in listed:
        if not isinstance(job, NewJob):
            raise TypeError(f"a job to enqueue must be a NewJob, not {type(job).__name__}")
    return limits.check_jobs(to_json([job.document() for job in listed])) if listed else None
