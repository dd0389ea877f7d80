"""Does what docs/http.md shows, with the client that is generated from the document."""

import sys

from client import Client
from client.api.components import show_components
from client.api.handlers import show_handlers
from client.api.jobs import (
    attempts_jobs,
    cancel_jobs,
    count_jobs,
    enqueue_jobs,
    list_jobs,
    logs_jobs,
    retry_all_jobs,
    retry_jobs,
    wait_jobs,
)
from client.api.queues import list_queues, pause_queues, resume_queues
from client.models import (
    CancelBody,
    Job,
    JobState,
    NewJob,
    Problem,
    Unique,
    UniqueScopeType1,
)

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)


def wait(id: str) -> Job:
    return wait_jobs.sync(id, client=client, timeout_seconds=60)


# Enqueue.
logged = NewJob(handler="log", params={"lines": 2}, priority=0)
accepted = enqueue_jobs.sync(client=client, body=logged)
job = wait(accepted.id)
assert job.state is JobState.COMPLETED, job
unique = Unique(key="mail-42", scope=UniqueScopeType1.RETAINED)
mail = NewJob(handler="echo", params=1.5, queue="mail", unique=unique, delay_seconds=3600)
mail = enqueue_jobs.sync(client=client, body=mail)
again = NewJob(handler="echo", params=1.5, queue="mail", unique=unique)
again = enqueue_jobs.sync(client=client, body=again)
assert (again.id, again.existing) == (mail.id, True), again
several = [NewJob(handler="echo", params=1.5), NewJob(handler="noop", depends_on=["#0"])]
first, second = enqueue_jobs.sync(client=client, body=several)

# Wait and inspect.
assert wait(first.id).result == 1.5
assert wait(second.id).depends_on == [first.id]
attempts = attempts_jobs.sync(second.id, client=client)
assert [attempt.outcome for attempt in attempts.items] == ["completed"], attempts
lines = logs_jobs.sync(job.id, client=client, limit=100)
assert [line.message for line in lines.items] == ["line 1 of 2", "line 2 of 2"], lines

# Cancel and retry.
enough = CancelBody(reason="enough", grace_seconds=2)
cancelled = cancel_jobs.sync(mail.id, client=client, body=enough)
assert cancelled.state is JobState.CANCELLED, cancelled
listed = list_jobs.sync(client=client, state=JobState.CANCELLED, queue="mail", limit=10)
assert [type(job) for job in listed.items] == [Job], "a list has the same jobs"
assert [job.id for job in listed.items] == [mail.id], listed
assert retry_jobs.sync(mail.id, client=client).id == mail.id
assert wait(mail.id).state is JobState.COMPLETED
many = retry_all_jobs.sync(client=client, state=JobState.DISCARDED)
assert (many.matched, many.changed) == (0, 0), many
assert count_jobs.sync(client=client, queue="mail").jobs == 1

# Queues.
assert pause_queues.sync("mail", client=client).paused
assert not resume_queues.sync("mail", client=client).paused
assert [queue.name for queue in list_queues.sync(client=client).items] == ["default", "mail"]

# What is deployed.
handler = show_handlers.sync("echo", client=client)
assert show_components.sync(handler.component, client=client).current == 1

# Errors.
refused = enqueue_jobs.sync(client=client, body=NewJob(handler="nobody"))
assert isinstance(refused, Problem) and refused.code == "handler_not_found", refused
