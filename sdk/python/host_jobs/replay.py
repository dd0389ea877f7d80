"""Answers requests of handlers from a recording in the format HAR 1.2, in tests."""

from __future__ import annotations

import base64
import json
from typing import Any, Callable

from .http import Response
from .interface import HttpError, HttpErrorKind, HttpRequest

_DROPPED = ("connection", "content-encoding", "content-length", "transfer-encoding")
"""Headers that are no longer true of a recorded body."""


def answers(har: str) -> Callable[[HttpRequest], Response]:
    """Returns what answers requests as they were answered in a recording."""
    entries = json.loads(har)["log"]["entries"]
    used: set[int] = set()

    def answer(request: HttpRequest) -> Response:
        of_request = [at for at, entry in enumerate(entries) if _is_of(entry["request"], request)]
        if not of_request:
            raise _missing(request, "is not in the recording")
        at = next((at for at in of_request if at not in used), of_request[-1])
        used.add(at)
        recorded = entries[at]["response"]
        # Recorders write 0 if there was no response.
        if recorded["status"] == 0:
            raise _missing(request, "got no response when it was recorded")
        headers = {header["name"].lower(): header["value"] for header in recorded.get("headers", [])}
        kept = {name: value for name, value in headers.items() if name[0] != ":" and name not in _DROPPED}
        return Response(recorded["status"], content=_body(recorded.get("content", {})), headers=kept)

    return answer


def _is_of(recorded: dict[str, Any], request: HttpRequest) -> bool:
    if (recorded["method"], recorded["url"]) != (request.method, request.url):
        return False
    body = recorded.get("postData", {}).get("text")
    return body is None or body.encode() == request.body


def _body(content: dict[str, Any]) -> bytes:
    text = content.get("text", "")
    return base64.b64decode(text) if content.get("encoding") == "base64" else text.encode()


def _missing(request: HttpRequest, cause: str) -> HttpError:
    return HttpError(HttpErrorKind.UNREACHABLE, f"{request.method} {request.url} {cause}")
