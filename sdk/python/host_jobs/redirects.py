"""Follows redirects: each hop is a request of its own, which the manifest must grant."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Callable

from .interface import HttpError, HttpErrorKind, HttpRequest, HttpResponse

HOPS_MAX = 20
"""The most redirects of a request."""
_STATUSES = (301, 302, 303, 307, 308)
_HARMLESS = {"accept", "accept-encoding", "accept-language", "content-language", "content-type", "user-agent"}
"""What a request to another origin keeps: no header that could be a credential."""


def send_all(send: Callable[[HttpRequest], HttpResponse], request: HttpRequest, most: int) -> HttpResponse:
    """Sends a request, and follows as many redirects. Returns the last answer."""
    hops = 0
    while True:
        answer = send(request)
        location = next((value for name, value in answer.headers if name.lower() == "location"), "")
        if not location or answer.status not in _STATUSES or most == 0:
            return answer
        url = _resolved(request.url, location)
        if hops == most:
            raise HttpError(HttpErrorKind.LIMIT_REACHED, f"more than {most} redirects, the last to {url}")
        request = _redirected(request, answer.status, url)
        hops += 1


def _redirected(request: HttpRequest, status: int, url: str) -> HttpRequest:
    """Returns the request that follows a redirect, by the rules of `fetch`."""
    method = request.method.upper()
    drops_body = method not in ("GET", "HEAD") if status == 303 else status < 303 and method == "POST"
    headers = request.headers
    origin = _origin(url)
    if origin is None or origin != _origin(request.url):
        headers = [(name, value) for name, value in headers if name.lower() in _HARMLESS]
    if not drops_body:
        return replace(request, url=url, headers=headers)
    kept = [(name, value) for name, value in headers if not name.lower().startswith("content-")]
    return replace(request, method="GET", url=url, headers=kept, body=b"")


def _origin(url: str) -> str | None:
    """Returns scheme and server of a URL. The host refuses what could be read in another way."""
    found = re.match(r"(https?)://([^/?#\\]+)", url, re.IGNORECASE)
    if not found:
        return None
    scheme, server = (it.lower() for it in found.groups())
    return f"{scheme}://{server.removesuffix(':443' if scheme == 'https' else ':80')}"


def _resolved(base: str, location: str) -> str:
    to = location.strip().replace(" ", "%20")
    if re.match(r"[a-z][a-z0-9+.-]*:", to, re.IGNORECASE):
        return to
    found = re.match(r"([a-z]+://[^/?#\\]*)([^?#]*)", base, re.IGNORECASE)
    origin, path = found.groups() if found else ("", "")
    if to.startswith("//"):
        return base.partition(":")[0] + ":" + to
    if to.startswith("/"):
        return origin + to
    if to.startswith(("?", "#")):
        return origin + path + to
    return origin + (path[: path.rfind("/") + 1] or "/") + to
