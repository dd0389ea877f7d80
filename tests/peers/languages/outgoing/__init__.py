"""A library that sends requests by `wasi:http`."""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

if sys.platform == "wasi":
    from componentize_py_types import Err
    from outgoing.bindings.imports import outgoing_handler, streams
    from outgoing.bindings.imports import wasi_http_types as types


def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    parts = urlsplit(url)
    fields = types.Fields.from_list([(name, value.encode()) for name, value in headers.items()])
    request = types.OutgoingRequest(fields)
    request.set_method(types.Method_Post())
    request.set_scheme(types.Scheme_Http())
    request.set_authority(parts.netloc)
    request.set_path_with_query(parts.path)
    outgoing = request.body()
    with outgoing.write() as stream:
        stream.blocking_write_and_flush(body)
    types.OutgoingBody.finish(outgoing, None)
    future = outgoing_handler.handle(request, None)
    with future.subscribe() as pollable:
        pollable.block()
    answer = future.get().value.value
    if not isinstance(answer, types.IncomingResponse):
        raise ConnectionError(type(answer).__name__)
    return answer.status(), _read(answer.consume()).decode()


def _read(body: types.IncomingBody) -> bytes:
    whole = b""
    with body.stream() as stream:
        while True:
            try:
                whole += stream.blocking_read(1 << 16)
            except Err as ended:
                if isinstance(ended.value, streams.StreamError_Closed):
                    return whole
                raise
