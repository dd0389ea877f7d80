"""A Hero client written only from the protocol document."""

import datetime
import json
import os
import uuid

import redis

PATIENCE_SECONDS = 60


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat()


class Job(dict):
    """The fields of a job, with the names of the document."""

    def __init__(self, worker, script, **fields):
        super().__init__(
            id=str(uuid.uuid4()),
            caller_id="alice",
            worker_id=worker,
            context_id="office",
            script=script,
            timeout="30",
            retries="0",
            concurrent="true",
            created_at=now(),
            updated_at=now(),
            status="dispatched",
            env_vars="{}",
            prerequisites="[]",
            dependents="[]",
            dependencies="[]",
        )
        self.update(fields)


class Dispatcher:
    """The operations of the document, with the commands that it specifies."""

    def __init__(self, url):
        self.redis = redis.Redis.from_url(url, decode_responses=True)

    def create(self, job):
        self.redis.hset(f"hero:job:{job['id']}", mapping=job)

    def submit(self, job):
        self.create(job)
        self.queue(job)

    def queue(self, job):
        self.redis.lpush(f"hero:work_queue:{job['worker_id']}", job["id"])

    def await_result(self, job):
        found = self.redis.blpop(f"hero:reply:{job['id']}", PATIENCE_SECONDS)
        assert found, f"no reply within {PATIENCE_SECONDS} s: {self.job(job)}"
        return found[1]

    def run_job_and_await_result(self, job):
        self.submit(job)
        return self.await_result(job)

    def list_jobs(self):
        return [key.removeprefix("hero:job:") for key in self.redis.keys("hero:job:*")]

    def stop_job(self, job):
        self.redis.lpush(f"hero:stop_queue:{job['worker_id']}", job["id"])

    def job(self, job):
        return self.redis.hgetall(f"hero:job:{job['id']}")

    def get_job_status(self, job):
        return self.job(job)["status"]

    def get_job_logs(self, job):
        path = self.job(job).get("log_path")
        if not path or not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as log:
            return log.read()

    def await_status(self, job, status):
        """Waits for a status without polling: every write to the hash is an event."""
        events = self.redis.pubsub(ignore_subscribe_messages=True)
        events.psubscribe(f"__keyspace@*__:hero:job:{job['id']}")
        events.get_message(timeout=1)
        waited = 0
        while self.get_job_status(job) != status:
            assert waited < PATIENCE_SECONDS, f"it is not {status}: {self.job(job)}"
            events.get_message(timeout=1)
            waited += 1
        events.close()

    def failure(self, job):
        """Waits for a job to fail, and returns its error."""
        reply = json.loads(self.await_result(job))
        ended = self.job(job)
        assert ended["status"] == "error", ended
        assert reply == {"error": ended["error"]}, (reply, ended)
        assert "output" not in ended, ended
        return ended["error"]
