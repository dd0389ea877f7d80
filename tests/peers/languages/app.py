"""The example, and handlers that fail."""

import socket

import word_count  # noqa: F401 (registers its handler)
from host_jobs import Handler as Jobs
from host_jobs import JobError, Retry, fetch, handler
from wit_world.imports import outgoing_handler
from wit_world.imports.http_types import Fields, Method_Post, OutgoingBody, OutgoingRequest, Scheme_Http
from componentize_py_types import Err


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


@handler("py-fetches")
def fetches(params, _ctx):
    """Sends the same request by `host:jobs/http` and by `wasi:http`."""
    body = params.get("body", "").encode()
    response = fetch(params["url"], method="POST", headers=[("x-from", "py")], body=body)
    return [[response.status, response.body.decode()], wasi_fetch(params["url"], body)]


def wasi_fetch(url, body):
    authority, _, path = url.removeprefix("http://").partition("/")
    request = OutgoingRequest(Fields.from_list([("x-from", b"py")]))
    request.set_method(Method_Post())
    request.set_scheme(Scheme_Http())
    request.set_authority(authority)
    request.set_path_with_query("/" + path)
    sent = request.body()
    future = outgoing_handler.handle(request, None)
    with sent.write() as stream:
        stream.blocking_write_and_flush(body)
    OutgoingBody.finish(sent, None)
    with future.subscribe() as answered:
        answered.block()
    response = future.get().value
    if isinstance(response, Err):
        raise JobError(type(response.value).__name__, kind="WasiHttp")
    response = response.value
    received, chunks = response.consume(), []
    with received.stream() as stream:
        try:
            while True:
                chunks.append(stream.blocking_read(65536))
        except Err:  # It has ended.
            pass
    return [response.status(), b"".join(chunks).decode()]


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
