"""A Hero worker written only from the protocol document, with the loop of the document.

Run as `python3 -c … PORT WORKER_ID`. The handlers are in `run`.
"""

import json
import os
import socket
import sys
import time

PORT, WORKER = int(sys.argv[1]), sys.argv[2]
WORK = f"hero:work_queue:{WORKER}"
STOP = f"hero:stop_queue:{WORKER}"


class Redis:
    """One connection, which is opened again whenever it is lost."""

    def __init__(self):
        self.stream = None

    def ask(self, *words):
        """Sends a command, and repeats it until it is answered."""
        while True:
            try:
                return self.ask_once(*words)
            except (OSError, EOFError):
                self.stream = None
                time.sleep(0.05)

    def ask_once(self, *words):
        if self.stream is None:
            sock = socket.create_connection(("127.0.0.1", PORT), timeout=10)
            sock.settimeout(None)
            self.stream = sock.makefile("rwb")
        parts = [str(word).encode() for word in words]
        request = b"*%d\r\n" % len(parts)
        request += b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self.stream.write(request)
        self.stream.flush()
        return self.read()

    def read(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            if rest.startswith("LOADING"):
                raise EOFError
            raise RuntimeError(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            if size < 0:
                return None
            data = self.stream.read(size + 2)
            if len(data) < size + 2:
                raise EOFError
            return data[:-2].decode()
        if kind == b"*":
            return None if rest == "-1" else [self.read() for _ in range(int(rest))]
        return rest


redis = Redis()


class Failed(Exception):
    pass


def stopped(job_id):
    """Removes a stop request for this job and returns whether there was one."""
    if redis.ask("LLEN", STOP) > 0 and job_id in redis.ask("LRANGE", STOP, 0, -1):
        redis.ask("LREM", STOP, 1, job_id)
        return True
    return False


def wait(job_id, seconds, limit, heeds):
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if heeds and time.monotonic() - began > limit:
            raise Failed("timeout")
        if heeds and stopped(job_id):
            raise Failed("stopped_by_request")
        time.sleep(0.02)


def first_time(params):
    """Returns whether this is the first call with this key."""
    return redis.ask("SETNX", "test:" + params["key"], "1") == 1


def run(job):
    handler = job.get("handler")
    if handler is None:
        return "ran " + job["script"]
    params = json.loads(job["script"])
    limit = float(job["timeout"])
    if handler == "echo":
        return json.dumps(params)
    if handler == "fail":
        raise Failed("boom: told to")
    if handler == "sleep":
        wait(job["id"], params["ms"] / 1000, limit, True)
        return str(params["ms"])
    if handler == "deaf":
        wait(job["id"], params["ms"] / 1000, limit, False)
        return "late"
    if handler == "die_started":
        if first_time(params):
            os._exit(1)
        return "survived"
    raise Failed("handler_not_found: " + handler)


while True:
    popped = redis.ask("BLPOP", WORK, 0)
    job_id = popped[1]
    pairs = redis.ask("HGETALL", f"hero:job:{job_id}")
    job = dict(zip(pairs[::2], pairs[1::2]))
    if job.get("handler") == "die_taken" and first_time(json.loads(job["script"])):
        os._exit(1)
    redis.ask("HSET", f"hero:job:{job_id}", "status", "started")
    if redis.ask("LLEN", STOP) > 0 and stopped(job_id):
        redis.ask("HSET", f"hero:job:{job_id}", "status", "error", "error", "stopped")
        continue
    try:
        if job.get("handler") == "die_taken":
            output = "survived"
        else:
            output = run(job)
        redis.ask("HSET", f"hero:job:{job_id}", "status", "finished", "output", output)
        redis.ask("LPUSH", f"hero:reply:{job_id}", output)
    except Failed as failed:
        redis.ask("HSET", f"hero:job:{job_id}", "status", "error", "error", str(failed))
