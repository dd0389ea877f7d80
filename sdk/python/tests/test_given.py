"""Whatever an author hands to the SDK ends as a value that the interface takes, or as an exception at the author's line."""

import datetime
import decimal
import io
import json
import random
import traceback
import unittest
import uuid
from typing import Any

from host_jobs import Cancelled, Category, Ctx, HttpError, JobError, JobsError, LogLevel, MockHost, NewJob, Response, Retry, handler
from host_jobs.errors import failure


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Rude(Exception):
    def __str__(self):
        raise KeyError("no text")


def cyclic():
    value = {"a": []}
    value["a"].append(value)
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


NAN, INF = float("nan"), float("inf")
VALUES = [
    None, True, 0, -1, 7, 2**32, 2**31 * 1000, 10**400, -(10**400), 1.5, -0.0, -3.7, NAN, INF, -INF, 1e300, "", "text", "\ud800", "a\udfffb",
    "\0", "é😀", "x" * 3_000_000, b"", b"\xff", bytearray(b"ab"), memoryview(b"cd"), [], [1], (1, 2), {1, 2}, {}, {1: 2}, {"a": NAN},
    {"a": "\ud800"}, {None: 1}, {(1, 2): 3}, object(), Unprintable(), Rude(), ValueError("v"), cyclic(), deep(), datetime.datetime(2026, 1, 2),
    datetime.timedelta(days=-1), datetime.timedelta.max, decimal.Decimal("1.5"), decimal.Decimal("NaN"), uuid.UUID(int=1), LogLevel.INFO,
    Category.TIMEOUT, print, int, range(3), iter([b"a", "b"]), io.BytesIO(b"file"), [("a", 1)], {"a": [1, None]}, 3 + 4j, NewJob("a"), ...,
    NotImplemented, lambda: 1,
]  # fmt: skip


def is_text(value):
    return type(value) is str and value.encode() is not None


def is_number(value):
    return type(value) is int and 0 <= value < 2**32


class StrictHost(MockHost):
    """Takes only what the interface of a component takes."""

    def sleep_ms(self, ms):
        assert is_number(ms), ms

    def progress(self, percent, message):
        assert (percent is None or type(percent) is float and 0 <= percent <= 100) and is_text(message)

    def write(self, level, message, fields):
        assert isinstance(level, LogLevel) and is_text(message)
        assert all(is_text(name) and is_text(value) for name, value in fields)

    def send(self, request):
        assert is_text(request.method) and is_text(request.url) and type(request.body) is bytes
        assert all(is_text(name) and is_text(value) for name, value in request.headers), request.headers
        assert request.timeout_ms is None or is_number(request.timeout_ms)
        return super().send(request)

    def enqueue(self, jobs):
        assert is_text(jobs)
        return ["1"] * len(json.loads(jobs))

    enqueue_now = enqueue

    def hold(self, limit, ms):
        assert is_text(limit) and is_number(ms)

    def reveal(self, name):
        assert is_text(name)
        return super().reveal(name)

    @property
    def state(self):
        return self

    def get(self, space, key):
        assert (space is None or is_text(space)) and is_text(key)

    def delete(self, space, key):
        self.get(space, key)

    def set(self, space, key, value):
        self.get(space, key)
        assert type(value) is bytes

    def compare_and_set(self, space, key, expected, value):
        self.get(space, key)
        assert all(it is None or type(it) is bytes for it in (expected, value))
        return True

    def list(self, space, prefix, after):
        self.get(space, prefix)
        return []

    set_now, delete_now, compare_and_set_now = set, delete, compare_and_set


FUNCTIONS = [
    lambda ctx, v: ctx.attribute(v),
    lambda ctx, v: ctx.progress(v, "m"),
    lambda ctx, v: ctx.progress(None, v),
    lambda ctx, v: ctx.sleep(v),
    lambda ctx, v: ctx.info(v),
    lambda ctx, v: ctx.warn("m", field=v),
    lambda ctx, v: ctx.log(v, "m"),
    lambda ctx, v: ctx.check_cancelled(v),
    lambda ctx, v: ctx.enqueue(v),
    lambda ctx, v: ctx.enqueue_all(v),
    lambda ctx, v: ctx.enqueue(NewJob("h", v)),
    lambda ctx, v: ctx.enqueue(NewJob(v)),
    lambda ctx, v: ctx.enqueue_now(NewJob("h", queue=v, priority=v, unique_key=v)),
    lambda ctx, v: ctx.enqueue(NewJob("h", delay_seconds=v)),
    lambda ctx, v: ctx.enqueue(NewJob("h", depends_on=v, inputs=v, attributes=v)),
    lambda ctx, v: ctx.enqueue(NewJob("h", others=v)),
    lambda ctx, v: ctx.hold(v, 1),
    lambda ctx, v: ctx.hold("limit", v),
    lambda ctx, v: ctx.secret(v),
    lambda ctx, v: ctx.state.get(v),
    lambda ctx, v: ctx.state.set(v, 1),
    lambda ctx, v: ctx.state.set("k", v),
    lambda ctx, v: ctx.state.set_bytes("k", v),
    lambda ctx, v: ctx.state.now().compare_and_set("k", v, v),
    lambda ctx, v: ctx.state.shared(v).delete("k"),
    lambda ctx, v: list(ctx.state.list(v)),
    lambda ctx, v: ctx.http.get(v),
    lambda ctx, v: ctx.http.get("http://a", params=v),
    lambda ctx, v: ctx.http.get("http://a", headers=v),
    lambda ctx, v: ctx.http.get("http://a", headers={"x": v}),
    lambda ctx, v: ctx.http.post("http://a", data=v),
    lambda ctx, v: ctx.http.patch("http://a", json=v),
    lambda ctx, v: ctx.http.request(v, "http://a"),
    lambda ctx, v: ctx.http.head("http://a", timeout=v),
    lambda ctx, v: Response(200, json=v),
    lambda ctx, v: Response(200, content=v, headers=v),
]
OF_THE_SDK = (TypeError, ValueError, HttpError, JobsError, JobError, Cancelled)
FAILURES = [
    lambda v: JobError(v),
    lambda v: JobError("m", kind=v),
    lambda v: JobError("m", code=v),
    lambda v: JobError("m", details=v),
    lambda v: JobError("m", details={"at": v, "in": [v]}),
    lambda v: JobError("m", retryable=v),
    lambda v: JobError("m", category=v),
    lambda v: Retry(v),
    lambda v: Retry("r", after=v),
    lambda v: Cancelled(v),
    lambda v: ValueError(v),
    lambda v: ValueError(v, v),
    lambda v: ExceptionGroup("g", [ValueError(v)]) if hasattr(__builtins__, "ExceptionGroup") else ValueError(v),
    lambda v: SystemExit(v),
    lambda v: Rude(v),
]


def mix(rng: random.Random, depth: int = 0) -> Any:
    """Makes a value of several."""
    pick = rng.randrange(5 if depth < 3 else 1)
    if pick < 3:
        return rng.choice(VALUES)
    if pick == 3:
        return [mix(rng, depth + 1) for _ in range(rng.randrange(3))]
    return {rng.choice(["a", 1, None, "\ud800"]): mix(rng, depth + 1) for _ in range(rng.randrange(3))}


class Given(unittest.TestCase):
    def values(self):
        rng = random.Random(7)
        return [*VALUES, *(mix(rng) for _ in range(100))]

    def test_any_value_in_any_function_is_taken_or_refused_at_the_authors_line(self):
        for at, function in enumerate(FUNCTIONS):
            for value in self.values():
                ctx = StrictHost(answer=lambda _: Response(200)).ctx
                try:
                    function(ctx, value)
                except OF_THE_SDK as error:
                    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
                    self.assertIn(__file__, files, at)
                except AssertionError as error:
                    self.fail(f"function {at} of {type(value)}: {error!s:.200}")

    def test_any_failure_is_described(self):
        for make in FAILURES:
            for value in self.values():
                try:
                    raise make(value)
                except OF_THE_SDK + (Retry, Exception, SystemExit) as error:
                    described = failure(error).value
                for name, part in vars(described).items() if hasattr(described, "__dict__") else [("", described)]:
                    if isinstance(part, str):
                        self.assertTrue(is_text(part), name)
                        self.assertLess(len(part), 100_000, name)
                    else:
                        self.assertTrue(part is None or isinstance(part, (bool, int, Category)), (name, part))

    def test_any_result_is_written_or_refused(self):
        @handler("any")
        def any_result(ctx: Ctx, params: Any) -> Any:
            return value

        for value in self.values():
            try:
                MockHost().call("any")
            except JobError as error:
                self.assertEqual(error.kind, "invalid_result")

    def test_failures_keep_what_they_can(self):
        error = JobError("x", code=404, kind=None, details={"at": datetime.datetime(2026, 1, 2), "loop": cyclic(), 1: "\ud800"})
        value = failure(error).value
        self.assertEqual((value.code, value.kind), ("404", "error"))
        self.assertEqual(value.details, '{"at":"2026-01-02T00:00:00","loop":{"a":["…"]},"1":"�"}')
        long = failure(ValueError("a" * 3_000_000)).value.message
        self.assertIn("2992000 characters left out", long)

    def test_times_are_never_taken_modulo(self):
        host = MockHost()
        host.ctx.sleep(-1)
        self.assertEqual(host.slept, 0)
        self.assertEqual(failure(Retry("r", after=-1)).value.after_ms, 0)
        self.assertEqual(failure(Retry("r", after=1e12)).value.after_ms, 2**32 - 1)
        for wrong in (lambda: host.ctx.sleep(NAN), lambda: Retry("r", after="5"), lambda: host.ctx.http.get("http://a", timeout=0)):
            self.assertRaises((TypeError, ValueError), wrong)

    def test_bodies_and_headers_are_those_that_requests_would_send(self):
        host = MockHost(answer=lambda _: Response(200, headers={"X-Total": 3}))
        http = host.ctx.http
        http.post("http://a", data={"a": [1, 2], "b": "ü", "c": None})
        http.post("http://a", data=bytearray(b"ab"), headers={"n": 5, "Content-Type": "text/x"})
        http.post("http://a", json=1, headers={"Content-Type": "application/vnd.api+json"})
        http.post("http://a", data=iter([b"a", "b"]))
        form, raw, json, parts = host.requests
        self.assertEqual((form.body, form.headers), (b"a=1&a=2&b=%C3%BC", [("content-type", "application/x-www-form-urlencoded")]))
        self.assertEqual((raw.body, raw.headers), (b"ab", [("n", "5"), ("Content-Type", "text/x")]))
        self.assertEqual(json.headers, [("Content-Type", "application/vnd.api+json")])
        self.assertEqual(parts.body, b"ab")
        answer = http.options("http://a")
        self.assertEqual((answer.headers["x-total"], answer.headers["X-TOTAL"], answer.headers.get("X-total")), ("3", "3", "3"))


if __name__ == "__main__":
    unittest.main()
