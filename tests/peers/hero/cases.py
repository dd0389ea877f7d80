"""One function for each rule of the protocol document. `cases.py URL LOGS` runs them against the workers of
the worker ids `w1` (any number of jobs at a time), `queue` (one at a time, the oldest first) and `stack`
(one at a time, the newest first), which write logs below the folder LOGS. It prints which cases fail."""

import datetime
import json
import sys
import threading
import time
import traceback
import uuid

from client import Dispatcher, Job

CASES = []


def case(function):
    CASES.append(function)
    return function


def handler(name, worker="w1", script="{}", **fields):
    return Job(worker, script, handler=name, **fields)


@case
def rhai_scripts_run(hero):
    job = Job("w1", "let x = 40; x + 2")
    assert hero.run_job_and_await_result(job) == "42"
    ended = hero.job(job)
    assert (ended["status"], ended["output"]) == ("finished", "42"), ended
    assert "error" not in ended, ended


@case
def heroscripts_run(hero):
    job = Job("w1", "!!vm.define name:'box one' cpu:2\n!!vm.define name:other\n    force:true")
    results = json.loads(hero.run_job_and_await_result(job))
    assert results == [{"name": "box one", "cpu": "2"}, {"name": "other", "force": "true"}]


@case
def deployed_handlers_run(hero):
    job = handler("echo", script='{"a": [1, "ü"]}')
    assert json.loads(hero.run_job_and_await_result(job)) == {"a": [1, "ü"]}


@case
def outputs_are_raw(hero):
    table = {'"a text"': "a text", "()": "", "[1, true]": "[1,true]", "#{a: 1.5}": '{"a":1.5}'}
    for script, output in table.items():
        job = Job("w1", script)
        reply = hero.run_job_and_await_result(job)
        assert reply == hero.job(job)["output"] == output, (script, reply)


@case
def errors_are_reported(hero):
    job = Job("w1", 'throw "no such customer"')
    hero.submit(job)
    assert "no such customer" in hero.failure(job)


@case
def time_limits_hold(hero):
    jobs = [Job("w1", "loop {}", timeout="1"), handler("spin", timeout="1")]
    for job in jobs:
        hero.submit(job)
    for job in jobs:
        assert hero.failure(job) == "timeout"


@case
def failed_jobs_are_retried(hero):
    enough = handler("flaky", script='{"fail_times": 2}', retries="2")
    few = handler("flaky", script='{"fail_times": 2}', retries="1")
    hero.submit(enough)
    hero.submit(few)
    assert json.loads(hero.await_result(enough)) == {"attempt": 3}
    assert "attempt 2 of 2" in hero.failure(few)


@case
def jobs_wait_for_their_prerequisites(hero):
    first, second, third = Job("w1", "1"), Job("w1", "2"), Job("w1", "3")
    second["prerequisites"] = json.dumps([first["id"]])
    third["dependencies"] = json.dumps([first["id"], second["id"]])
    first["dependents"] = json.dumps([second["id"], third["id"]])
    for job in (third, second):
        hero.submit(job)
    # Jobs behind them in the queue are not delayed.
    assert hero.run_job_and_await_result(Job("w1", "4")) == "4"
    assert hero.get_job_status(second) == hero.get_job_status(third) == "dispatched"
    hero.submit(first)
    assert hero.await_result(third) == "3"
    ends = [hero.job(job)["updated_at"] for job in (first, second, third)]
    assert ends == sorted(ends), ends
    assert hero.job(first)["dependents"] == first["dependents"]


@case
def failed_prerequisites_fail_their_dependents(hero):
    bad, needs = Job("w1", "throw 1"), Job("w1", "2")
    needs["prerequisites"] = json.dumps([bad["id"]])
    hero.submit(needs)
    hero.submit(bad)
    assert hero.failure(needs) == f"prerequisite_failed: {bad['id']}"


@case
def queued_jobs_can_be_stopped(hero):
    needs, never = Job("w1", "1"), str(uuid.uuid4())
    needs["prerequisites"] = json.dumps([never])
    early = Job("w1", "2")
    hero.stop_job(early)
    for job in (needs, early):
        hero.submit(job)
    hero.stop_job(needs)
    for job in (needs, early):
        assert hero.failure(job) == "stopped_by_request"


@case
def running_jobs_can_be_stopped(hero):
    jobs = [Job("w1", "loop {}"), handler("spin"), Job("w1", "!!vm.spin x:1")]
    for job in jobs:
        hero.submit(job)
        hero.await_status(job, "started")
    for job in jobs:
        hero.stop_job(job)
        assert hero.failure(job) == "stopped_by_request"


@case
def stop_requests_for_ended_jobs_change_nothing(hero):
    job = Job("w1", "1")
    assert hero.run_job_and_await_result(job) == "1"
    ended = hero.job(job)
    hero.stop_job(job)
    assert hero.run_job_and_await_result(Job("w1", "2")) == "2"
    assert hero.job(job) == ended
    assert hero.redis.llen(f"hero:reply:{job['id']}") == 0


@case
def scripts_see_env_vars(hero):
    job = Job("w1", "[REGION, ENV.ZONE]", env_vars='{"REGION": "eu", "ZONE": "1"}')
    assert json.loads(hero.run_job_and_await_result(job)) == ["eu", "1"]


@case
def scripts_see_caller_and_context(hero):
    job = Job("w1", "fn who() { CALLER_ID } [who(), CONTEXT_ID]", caller_id="bob", context_id="x y")
    assert json.loads(hero.run_job_and_await_result(job)) == ["bob", "x y"]


@case
def jobs_that_are_not_concurrent_run_one_at_a_time(hero):
    alone = {"concurrent": "false", "context_id": str(uuid.uuid4())}
    first, second = handler("spin", **alone), Job("w1", "2", **alone)
    hero.submit(first)
    hero.await_status(first, "started")
    hero.submit(second)
    other = Job("w1", "3", concurrent="false", context_id=str(uuid.uuid4()))
    assert hero.run_job_and_await_result(other) == "3"
    assert hero.get_job_status(second) == "dispatched"
    hero.stop_job(first)
    assert hero.await_result(second) == "2"


def order(hero, worker):
    """Returns the order in which a worker that runs one job at a time runs three queued jobs."""
    blocker = handler("spin", worker)
    jobs = [handler("sleep", worker, '{"ms": 20}') for _ in range(3)]
    hero.submit(blocker)
    hero.await_status(blocker, "started")
    for job in jobs:
        hero.submit(job)
    hero.stop_job(blocker)
    for job in jobs:
        hero.await_result(job)
    return sorted(range(3), key=lambda at: hero.job(jobs[at])["updated_at"])


@case
def both_pop_sides_work(hero):
    assert order(hero, "queue") == [0, 1, 2]
    assert order(hero, "stack") == [2, 1, 0]


@case
def unknown_fields_are_kept(hero):
    job = Job("w1", "1", mood="good", ü="\n")
    hero.run_job_and_await_result(job)
    ended = hero.job(job)
    changed = {name for name in job if ended[name] != job[name]}
    assert changed == {"status", "updated_at"}, changed
    assert ended.keys() - job.keys() == {"output"}, ended


@case
def times_are_iso_8601(hero):
    job = Job("w1", "1")
    hero.run_job_and_await_result(job)
    ended = hero.job(job)
    assert ended["created_at"] == job["created_at"]
    created, updated = (
        datetime.datetime.fromisoformat(ended[name].replace("Z", "+00:00"))
        for name in ("created_at", "updated_at")
    )
    age = datetime.datetime.now(datetime.timezone.utc) - updated
    assert updated.utcoffset() == datetime.timedelta(0), ended
    assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=2), age
    assert updated >= created - datetime.timedelta(seconds=1)


@case
def statuses_come_in_order(hero):
    good, bad = Job("w1", "1"), Job("w1", "throw 1")
    written = {good["id"]: [], bad["id"]: []}
    with hero.redis.monitor() as monitor:
        for job in (good, bad):
            threading.Thread(target=hero.submit, args=[job]).start()
        while sum(map(len, written.values())) < 6:
            words = monitor.next_command()["command"].split(" ")
            job = written.get(words[1].removeprefix("hero:job:")) if len(words) > 1 else None
            if job is not None and words[0] == "HSET":
                job.append(words[words.index("status") + 1])
    assert written[good["id"]] == ["dispatched", "started", "finished"], written
    assert written[bad["id"]] == ["dispatched", "started", "error"], written


@case
def replies_expire_if_nobody_reads_them(hero):
    short, long = Job("w1", "1"), Job("w1", "1", timeout="7200")
    for job, seconds in ((short, 3600), (long, 7200)):
        hero.submit(job)
        hero.await_status(job, "finished")
        ttl = hero.redis.ttl(f"hero:reply:{job['id']}")
        assert seconds - 60 < ttl <= seconds, ttl
        assert hero.redis.lrange(f"hero:reply:{job['id']}", 0, -1) == ["1"]


@case
def jobs_are_listed_with_status_and_logs(hero):
    jobs = [Job("w1", str(n)) for n in range(3)]
    for job in jobs:
        hero.run_job_and_await_result(job)
    assert {job["id"] for job in jobs} <= set(hero.list_jobs())
    assert [hero.get_job_status(job) for job in jobs] == ["finished"] * 3
    assert [hero.get_job_logs(job) for job in jobs] == [None] * 3


@case
def logs_are_written_to_log_path(hero):
    job = Job("w1", 'print("hello"); 1', log_path=f"{sys.argv[2]}/one.log")
    assert hero.run_job_and_await_result(job) == "1"
    # Lines may be written a moment after the job ends.
    late = time.monotonic() + 60
    while "hello" not in (hero.get_job_logs(job) or ""):
        assert time.monotonic() < late, hero.job(job)
        time.sleep(0.01)


@case
def duplicate_ids_run_once(hero):
    job = handler("sleep", script='{"ms": 5000}')
    hero.submit(job)
    hero.await_status(job, "started")
    for _ in range(3):
        hero.queue(job)
    hero.await_status(job, "finished")
    hero.queue(job)
    assert hero.run_job_and_await_result(Job("w1", "1")) == "1"
    assert hero.redis.llen(f"hero:reply:{job['id']}") == 1


def main():
    failed = 0
    for function in CASES:
        hero = Dispatcher(sys.argv[1])
        hero.redis.config_set("notify-keyspace-events", "Kh")
        try:
            function(hero)
        except Exception:
            failed += 1
            print(f"FAILED {function.__name__}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"ok {function.__name__}", flush=True)
    print(f"{len(CASES)} cases, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


main()
