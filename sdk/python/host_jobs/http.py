"""Requests to HTTP servers, much as with `requests`."""

from __future__ import annotations

import datetime
from typing import Any, Iterable, Mapping

from . import given, limits
from .errors import JobError
from .interface import Category, Host, HttpRequest, HttpResponse
from .redirects import HOPS_MAX, send_all
from .values import to_json

_RETRYABLE = (408, 425, 429)


class Headers(dict[str, str]):
    """Headers of a response. Their names are in lower case, and found in any."""

    def __init__(self, headers: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None = None) -> None:
        super().__init__()
        for name, value in given.headers(headers):
            # Headers that are there several times are joined.
            key = name.lower()
            super().__setitem__(key, f"{self[key]}, {value}" if key in self else value)

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


class Response:
    """A response with its whole body. Any status is a response; see `raise_for_status`."""

    def __init__(
        self,
        status_code: int = 200,
        *,
        json: Any = None,
        content: bytes | str = b"",
        headers: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
    ) -> None:
        """Makes a response, for tests."""
        self.status_code = status_code
        self.headers = Headers(headers)
        self.content = given.raw(content, "content")
        if json is not None:
            self.content = to_json(json).encode()
            self.headers.setdefault("content-type", "application/json")

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status_code < 300

    @property
    def text(self) -> str:
        """The body as text; what is not UTF-8 is replaced."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """Reads the body as JSON."""
        try:
            return given.read_json(self.content)
        except (ValueError, RecursionError) as error:
            message = f"the response is not JSON: {error}"
            raise JobError(message, kind="http_invalid_json", category=Category.INFRASTRUCTURE) from error

    def raise_for_status(self) -> Response:
        """Returns the response if its status is 2xx. Of other statuses, 408, 425, 429 and 5xx are retried."""
        if self.ok:
            return self
        raise JobError(
            f"the server answered {self.status_code}",
            kind="http_status",
            category=Category.INFRASTRUCTURE,
            code=str(self.status_code),
            retryable=self.status_code in _RETRYABLE or self.status_code >= 500,
        )


class Http:
    """Sends requests to the servers that the manifest names. Raises `HttpError` if there is no response."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def get(self, url: str, **options: Any) -> Response:
        """Sends a `GET` request; see `request`."""
        return self.request("GET", url, **options)

    def post(self, url: str, **options: Any) -> Response:
        """Sends a `POST` request; see `request`."""
        return self.request("POST", url, **options)

    def put(self, url: str, **options: Any) -> Response:
        """Sends a `PUT` request; see `request`."""
        return self.request("PUT", url, **options)

    def delete(self, url: str, **options: Any) -> Response:
        """Sends a `DELETE` request; see `request`."""
        return self.request("DELETE", url, **options)

    def patch(self, url: str, **options: Any) -> Response:
        """Sends a `PATCH` request; see `request`."""
        return self.request("PATCH", url, **options)

    def head(self, url: str, **options: Any) -> Response:
        """Sends a `HEAD` request; see `request`."""
        return self.request("HEAD", url, **options)

    def options(self, url: str, **options: Any) -> Response:
        """Sends an `OPTIONS` request; see `request`."""
        return self.request("OPTIONS", url, **options)

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Any = None,
        headers: Any = None,
        json: Any = None,
        data: Any = None,
        timeout: float | datetime.timedelta | None = None,
        redirects: int = 0,
    ) -> Response:
        """Sends a request and waits for the response. The host adds the headers of the manifest. Up to
        `redirects` redirects are followed, 20 at most: each is a request that the manifest must grant, and to another origin go no headers
        that could be credentials. `data` is bytes, a text, a file, an iterator of bytes, or a mapping, which is sent as a form. `timeout` is in
        seconds; the manifest's is the longest."""
        target = given.text(url)
        if params:
            target += ("&" if "?" in target else "?") + given.query(params, "params")
        fields = given.headers(headers)
        body, kind = given.body(data)
        if json is not None:
            body, kind = to_json(json).encode(), "application/json"
        if kind and not any(name.lower() == "content-type" for name, _ in fields):
            fields.append(("content-type", kind))
        ms = None if timeout is None else given.milliseconds(timeout, "timeout", least=1)
        if not 0 <= given.number(redirects, "redirects") <= HOPS_MAX:
            raise ValueError(f"redirects must be 0 to {HOPS_MAX}, not {redirects}")
        request = HttpRequest(given.name(method, "method"), target, fields, body, ms)
        return response(send_all(lambda hop: self._host.http.send(limits.check_request(hop)), request, int(redirects)))


def response(answer: HttpResponse) -> Response:
    """Returns what the host answered."""
    return Response(answer.status, content=answer.body, headers=answer.headers)
