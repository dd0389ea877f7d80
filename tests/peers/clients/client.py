"""Does what docs/http.md shows, through restarts and lost answers. Its peer does what it asks for, line by line."""

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from host_jobs_client import Changed, Client, JobCancelled, JobFailed, Refused, ResultWithheld, WaitTimeout


def ask(what: str) -> None:
    print(what, flush=True)
    assert input() == "done"


client = Client()
basics = Path(sys.argv[1]).read_bytes()
assert client.deploy("basics", basics)["revision"] == 1

# Send a file.
sent = client.upload(b"a,1\n", "text/csv")
assert (sent["bytes"], sent["content_type"]) == (4, "text/csv"), sent
streamed = client.upload(Path(sys.argv[1]).open("rb"))
assert streamed["bytes"] == len(basics), streamed
reads = client.enqueue("echo", 1, files={"rows": sent["id"]})
assert client.job(reads["id"])["files"] == {"rows": sent["id"]}

# Enqueue and wait.
assert client.enqueue_and_wait("echo", {"a": [1.5, "ä", None]}, timeout=60) == {"a": [1.5, "ä", None]}
mail = client.enqueue("echo", 1, queue="mail", unique={"key": "42", "scope": "retained"}, delay_seconds=3600)
again = client.enqueue("echo", 1, queue="mail", unique={"key": "42", "scope": "retained"})
assert (again["id"], again["existing"]) == (mail["id"], True), again
first, second = client.enqueue_array([{"handler": "echo", "params": 2}, {"handler": "noop", "depends_on": ["#0"]}])
assert client.wait(second["id"]).get("depends_on") == [first["id"]]
assert [attempt["outcome"] for attempt in client.attempts(second["id"])] == ["completed"]
logged = client.enqueue("log", {"lines": 2}, priority=0)["id"]
client.result(logged)
assert [line["message"] for line in client.log(logged)] == ["line 1 of 2", "line 2 of 2"]

# How a job ends.
try:
    client.enqueue_and_wait("fail", {"message": "broken"}, max_attempts=1)
    raise AssertionError("it fails")
except JobFailed as failed:
    assert failed.job["state"] == "discarded" and "failure" in failed.job, failed
try:
    client.enqueue_and_wait("spin", timeout=0.1)
    raise AssertionError("it does not end")
except WaitTimeout as late:
    assert client.cancel(late.job["id"], "enough", grace_seconds=0)["state"] == "running"
    spinning = late.job["id"]
try:
    client.result(spinning)
    raise AssertionError("it was cancelled")
except JobCancelled as cancelled:
    assert cancelled.job.get("cancel_reason") == "enough"

# Cancel, retry, queues.
assert client.cancel(mail["id"])["state"] == "cancelled"
assert [job["id"] for job in client.jobs(state="cancelled", queue="mail")] == [mail["id"]]
client.retry(mail["id"])
assert client.result(mail["id"]) == 1
assert client.api.jobs.count(queue="mail")["jobs"] == 1
assert client.api.queues.pause("mail")["paused"] and not client.api.queues.resume("mail")["paused"]
assert [queue["name"] for queue in client.items(client.api.queues.list)] == ["default", "mail"]

# State.
client.api.state.set("handler:echo", {"value": "17"}, key="a/b c")
assert client.api.state.value("handler:echo", key="a/b c").get("value") == "17"
assert [space["space"] for space in client.items(client.api.state.spaces)] == ["handler:echo"]
assert [it["key"] for it in client.items(client.api.state.keys, "handler:echo", prefix="a/")] == ["a/b c"]
client.api.state.remove("handler:echo", key="a/b c")
assert not client.api.state.spaces()["items"]

# Deploy with a manifest. New grants are accepted or refused.
manifest = '[[handlers.echo.jobs]]\nhandlers = ["noop"]\nqueues = ["default"]\n'
try:
    client.deploy("basics", basics, manifest)
    raise AssertionError("it has new grants")
except Refused as refused:
    assert refused.code == "grants_not_accepted", refused
assert client.deploy("basics", basics, manifest, accept_grants=True)["revision"] == 2

# Many jobs, and pages of them.
pages: list[int] = []
assert client.enqueue_many(({"handler": "echo", "queue": "many"} for _ in range(2500)), lambda it: pages.append(len(it)))
assert pages == [1000, 1000, 500], pages
assert len({job["id"] for job in client.jobs(queue="many")}) == 2500

# Lost answers.
ask("swallow")
lost = client.enqueue("echo", "once", queue="lost")
assert lost["existing"], "the request was sent twice"
ask("swallow")
assert len(client.enqueue_array([{"handler": "echo", "queue": "lost"}] * 3)) == 3
assert client.api.jobs.count(queue="lost")["jobs"] == 4

# A host that is killed and starts again, in the middle of streams and of a wait.
quiet, events = client.events(queue="quiet"), client.events(queue="stream")
ids = [it["id"] for it in client.enqueue_array([{"handler": "echo", "queue": "stream"}] * 100)]
seen = list(islice(events, 10))
with ThreadPoolExecutor() as aside:
    waiting = aside.submit(client.enqueue_and_wait, "echo", "late", delay_seconds=2)
    ask("restart")
    ids += [it["id"] for it in client.enqueue_array([{"handler": "echo", "queue": "stream"}] * 100)]
    client.enqueue("echo", queue="quiet")
    assert waiting.result() == "late"
ended: list[str] = []
while len(ended) < len(ids):
    event = seen.pop(0) if seen else next(events)
    assert isinstance(event, Changed), event
    if event.data.get("to") == "completed":
        ended.append(event.data["job"])
assert sorted(ended) == sorted(ids), "each job ends once in the stream"
first_of_quiet = next(quiet)
assert isinstance(first_of_quiet, Changed) and first_of_quiet.data.get("from") is None, first_of_quiet
of_one = [event.data["to"] for event in client.events(job=ids[0], after=0) if isinstance(event, Changed)]
assert of_one[0] == "available" and of_one[-1] == "completed", of_one

# What is refused.
for refusing, code in [(client, "handler_not_found"), (Client(client.server, token="hst_wrong"), "unauthenticated")]:
    try:
        refusing.enqueue("missing")
        raise AssertionError(code)
    except Refused as refused:
        assert refused.code == code and "hst_" not in str(refused), refused

# What a token may not see.
made = client.api.tokens.create({"name": "blind", "allow": ["enqueue", "read"]})
blind = Client(client.server, token=made["token"])
try:
    blind.enqueue_and_wait("echo", "zebra")
    raise AssertionError("its result is withheld")
except ResultWithheld as withheld:
    assert "read_payload" in str(withheld), withheld
try:
    blind.enqueue_and_wait("fail", {"message": "zebra"}, max_attempts=1)
    raise AssertionError("it fails")
except JobFailed as failed:
    assert "its message is withheld" in str(failed) and "zebra" not in str(failed.job), failed
