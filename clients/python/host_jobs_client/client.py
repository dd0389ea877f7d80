"""The client: what users call. It knows neither sockets nor HTTP."""

from __future__ import annotations

import json
import os
import time
import uuid
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Mapping, Unpack, cast

from .api import Accepted, Api, Attempt, Cancel, Deployed, Job, JobOptions, JobsListQuery, Line, NewJob, Upload
from .errors import JobCancelled, JobFailed, ResultWithheld, WaitTimeout
from .events import ENDED, Events
from .settings import resolve
from .transport import Transport, filled

JOBS = "/api/v1/jobs"
ARRAY_JOBS_MAX = 1_000
ARRAY_BYTES_MAX = 4 << 20
WAIT_SECONDS_MAX = 60.0


class Client:
    """A client of one host. Threads may share it.

    Without arguments it uses what the command line would: `HOST_SERVER`, `HOST_TOKEN_FILE`, `HOST_TOKEN`, and the
    current context. `patience` is for how many seconds a request is repeated while the host does not answer or says
    that it is busy. `api` has all operations of the API.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        context: str | None = None,
        ca_file: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        patience: float = 30.0,
    ):
        settings = resolve(server, token, token_file, context, ca_file, client_cert, client_key)
        self._transport = Transport(settings, patience)
        self.server = settings.server
        self.api = Api(self._transport.call)

    def __repr__(self) -> str:
        return f"Client({self.server!r})"

    def close(self) -> None:
        """Closes the connections that are kept."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def enqueue(self, handler: str, params: Any = None, **options: Unpack[JobOptions]) -> Accepted:
        """Enqueues a job. It is one job even if an answer is lost on the way.

        For that, a job without a unique key gets a random one of scope `retained`. With a key of another scope, a
        request is not repeated after it may have been carried out.
        """
        job = cast(NewJob, {"handler": handler, "params": params, **options})
        return cast(Accepted, self._enqueue(_keyed(job)))

    def enqueue_and_wait(
        self, handler: str, params: Any = None, *, timeout: float | None = None, **options: Unpack[JobOptions]
    ) -> Any:
        """Enqueues a job, waits for its end, and returns its result.

        Raises `JobFailed`, `JobCancelled`, or after `timeout` seconds `WaitTimeout`: the job then continues.
        """
        return self.result(self.enqueue(handler, params, **options)["id"], timeout)

    def enqueue_array(self, jobs: Iterable[NewJob]) -> list[Accepted]:
        """Enqueues up to 1,000 jobs, all or none; `#0` in `depends_on` is the first of them."""
        return cast("list[Accepted]", self._enqueue([_keyed(job) for job in jobs]))

    def enqueue_many(
        self, jobs: Iterable[NewJob], accepted: Callable[[list[Accepted]], object] = lambda _: None
    ) -> int:
        """Enqueues any number of jobs, array by array, and returns how many there were.

        `accepted` is called with the answers to each array, in the order of the jobs.
        """
        total, size, array = 0, 0, list[NewJob]()
        for job in map(_keyed, jobs):
            named = [it if isinstance(it, str) else it["job"] for it in job.get("depends_on") or []]
            if isinstance(batch := job.get("batch"), str):
                named.append(batch)
            if any(it.startswith("#") for it in named):
                raise ValueError("jobs of different requests cannot name each other: use enqueue_array for `#n`")
            length = len(json.dumps(job)) + 2
            if array and (len(array) == ARRAY_JOBS_MAX or size + length > ARRAY_BYTES_MAX):
                accepted(self._enqueue(array))
                size, array = 0, []
            array.append(job)
            size, total = size + length, total + 1
        if array:
            accepted(self._enqueue(array))
        return total

    def _enqueue(self, body: NewJob | list[NewJob]) -> Any:
        uniques = [job.get("unique") for job in (body if isinstance(body, list) else [body])]
        repeatable = all(it is not None and it.get("scope") == "retained" for it in uniques)
        return self._transport.send("POST", JOBS, json.dumps(body, allow_nan=False).encode(), repeatable)

    def job(self, id: str) -> Job:
        """Returns a job as it is now."""
        return self.api.jobs.show(id)

    def wait(self, id: str, timeout: float | None = None) -> Job:
        """Waits until a job has ended, and returns it, however it ended. A restart of the host does not matter."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_SECONDS_MAX if end is None else max(0.0, min(WAIT_SECONDS_MAX, end - time.monotonic()))
            path = filled(JOBS + "/{id}/wait", (id,), {"timeout_seconds": round(left, 3)})
            began = time.monotonic()
            job: Job = self._transport.send("GET", path, None, repeatable=True, wait=left)
            if job["state"] in ENDED:
                return job
            if timeout is not None and end is not None and time.monotonic() >= end:
                raise WaitTimeout(job, timeout)
            # A host that stops answers early.
            time.sleep(max(0.0, min(0.2, left - (time.monotonic() - began))))

    def result(self, id: str, timeout: float | None = None) -> Any:
        """Waits until a job has ended, and returns its result, or raises `JobFailed`, `JobCancelled` or `ResultWithheld`."""
        job = self.wait(id, timeout)
        if job["state"] == "completed":
            if "result" in (job.get("withheld") or ()):
                raise ResultWithheld(job)
            return job.get("result")
        raise (JobCancelled if job["state"] == "cancelled" else JobFailed)(job)

    def jobs(self, **filter: Unpack[JobsListQuery]) -> Iterator[Job]:
        """Lists the jobs that match, the newest first; `limit` is the size of a page."""
        return self.items(self.api.jobs.list, **filter)

    def log(self, id: str) -> Iterator[Line]:
        """Lists what a job has logged so far."""
        return self.items(self.api.jobs.logs, id)

    def attempts(self, id: str) -> Iterator[Attempt]:
        """Lists the attempts of a job."""
        return self.items(self.api.jobs.attempts, id)

    def items(self, operation: Callable[..., Mapping[str, Any]], *places: str, **query: Any) -> Iterator[Any]:
        """Lists all items of an operation that answers in pages: `client.items(client.api.state.keys, space)`."""
        while True:
            page = operation(*places, **query)
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            query["cursor"] = page["next_cursor"]

    def cancel(self, id: str, reason: str | None = None, grace_seconds: float | None = None) -> Cancel:
        """Cancels a job. If it is running, its handler has `grace_seconds` to stop by itself."""
        return self.api.jobs.cancel(id, {"reason": reason, "grace_seconds": grace_seconds})

    def retry(self, id: str, force: bool = False) -> Job:
        """Runs a job that was discarded or cancelled again; with `force` without those that it depends on."""
        return self.api.jobs.retry(id, {"force": force})

    def upload(self, content: bytes | BinaryIO, content_type: str = "application/octet-stream") -> Upload:
        """Sends a file for jobs to read: bytes, or a file that is open to read bytes. `files` of a job names its `id`."""
        return cast(Upload, self._transport.send("PUT", "/api/v1/artifacts", content, False, content_type, wait=3_600))

    def events(self, *, job: str | None = None, queue: str | None = None, after: int | None = None) -> Events:
        """Returns what happens from now on, or after the event with this id, as an iterator.

        When the connection breaks, it continues where it was. The stream of one job ends with the job.
        """
        return Events(self._transport, self.api, job, queue, after)

    def deploy(
        self, name: str, component: bytes, manifest: str | None = None, *, accept_grants: bool = False, force: bool = False
    ) -> Deployed:
        """Deploys a component, with the text of its manifest."""
        query = {"accept_grants": accept_grants, "force": force}
        path = filled("/api/v1/components/{name}", (name,), query)
        boundary = uuid.uuid4().hex
        body = b""
        parts = {"component": component, **({} if manifest is None else {"manifest": manifest.encode()})}
        for part, content in parts.items():
            head = f'--{boundary}\r\ncontent-disposition: form-data; name="{part}"\r\n\r\n'
            body += head.encode() + content + b"\r\n"
        body += f"--{boundary}--\r\n".encode()
        kind = f"multipart/form-data; boundary={boundary}"
        # The first components of a build take minutes to compile.
        return cast(Deployed, self._transport.send("PUT", path, body, False, kind, wait=600))


def _keyed(job: NewJob) -> NewJob:
    """Gives a job a key with which the host accepts it once, unless it has a key."""
    if job.get("unique") or job.get("unique_key"):
        return job
    return {**job, "unique": {"key": f"client-{uuid.uuid4()}", "scope": "retained"}}
