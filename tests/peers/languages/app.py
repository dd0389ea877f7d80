"""The example, and handlers that fail."""

import socket

import word_count  # noqa: F401 (registers its handler)
from host_jobs import Handler as Jobs
from host_jobs import JobError, Retry, handler


@handler("py-raises")
def raises(params, _ctx):
    return {"n": int(params["n"])}


@handler("py-fails")
def fails(_params, _ctx):
    raise JobError("no luck", kind="NoLuck", code="E1", details={"a": 1}, retryable=False)


@handler("py-retries")
def retries(_params, ctx):
    if ctx.attempt < 3:
        raise Retry("not yet", after_ms=1)
    return ctx.attempt


@handler("py-connects")
def connects(_params, _ctx):
    socket.socket(socket.AF_INET, socket.SOCK_STREAM)


@handler("py-uncaught")
def uncaught(_params, _ctx):
    """Raises past the handlers."""


class Handler(Jobs):
    def handle(self, ctx, params):
        if ctx.function == "py-uncaught":
            deep(30)
        return super().handle(ctx, params)


def deep(n):
    if n == 0:
        raise ValueError("nobody catches this")
    deep_again(n - 1)


def deep_again(n):
    deep(n)
