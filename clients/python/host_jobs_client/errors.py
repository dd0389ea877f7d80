"""What goes wrong, as exceptions. None of them has a token in it."""

from __future__ import annotations

from .api import Job


class HostError(Exception):
    """Any error of this package."""


class SettingsError(HostError, ValueError):
    """The address, the token or the context cannot be used."""


class Unreachable(HostError, ConnectionError):
    """The host did not answer. It may have carried out the request if `may_have_happened`."""

    def __init__(self, message: str, may_have_happened: bool):
        super().__init__(message)
        self.may_have_happened = may_have_happened


class Refused(HostError):
    """The host refused the request; `code` is one of those in docs/errors.md."""

    def __init__(self, status: int, problem: dict[str, str], retry_after: float | None = None):
        self.status = status
        self.code = problem.get("code", "")
        self.title = problem.get("title", f"HTTP status {status} without a problem document: perhaps this is no host")
        self.detail = problem.get("detail", "")
        self.next = problem.get("next", "")
        self.retry_after = retry_after
        said = ": ".join(filter(None, [self.title, self.detail]))
        super().__init__(f"{said} ({self.code})" if self.code else said)


class JobEnded(HostError):
    """A job that was awaited has ended and did not complete; `job` is the whole of it."""

    def __init__(self, job: Job):
        self.job = job
        failure = job.get("failure")
        why = f": {failure['kind']}: {failure.get('message', 'its message is withheld from this token')}" if failure else ""
        super().__init__(f"job {job['id']} was {job['state']}{why}")


class JobFailed(JobEnded):
    """The job was discarded: it failed and is not retried again."""


class JobCancelled(JobEnded):
    """The job was cancelled; `job["result"]` is what it had done, if it said so."""


class ResultWithheld(HostError):
    """The job has completed, but this token may not see its result; `job` is what it may see.

    It needs the verb `read_payload`, or `read_own` for jobs that it enqueues itself.
    """

    def __init__(self, job: Job):
        self.job = job
        super().__init__(
            f"job {job['id']} has completed, but its result is withheld from this token, "
            "which needs the verb read_payload, or read_own for jobs that it enqueues itself"
        )


class WaitTimeout(HostError, TimeoutError):
    """The job has not ended in time, and continues."""

    def __init__(self, job: Job, timeout: float):
        self.job = job
        super().__init__(f"job {job['id']} is still {job['state']} after {timeout:g} seconds; it continues")
