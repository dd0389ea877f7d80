"""Enqueues, waits, reads a log and cancels with the client that is generated from the document."""

import sys

from client import Client
from client.api.jobs import cancel_jobs, enqueue_jobs, list_jobs, logs_jobs, wait_jobs
from client.models import CancelBody, NewJob, Problem

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)

logged = NewJob(handler="log", params={"lines": 2}, priority=0)
accepted = enqueue_jobs.sync(client=client, body=logged)
job = wait_jobs.sync(accepted.id, client=client, timeout_seconds=60)
assert job.state == "completed", job
lines = logs_jobs.sync(job.id, client=client)
assert [line.message for line in lines.items] == ["line 1 of 2", "line 2 of 2"], lines

several = [NewJob(handler="echo", params=1.5), NewJob(handler="noop", delay_seconds=3600)]
first, later = enqueue_jobs.sync(client=client, body=several)
cancelled = cancel_jobs.sync(later.id, client=client, body=CancelBody(reason="enough"))
assert cancelled.state == "cancelled", cancelled
assert wait_jobs.sync(first.id, client=client).result == 1.5
listed = list_jobs.sync(client=client, state="cancelled")
assert [job.id for job in listed.items] == [later.id], listed

refused = enqueue_jobs.sync(client=client, body=NewJob(handler="nobody"))
assert isinstance(refused, Problem) and refused.code == "handler_not_found", refused
