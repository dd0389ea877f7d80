"""Requests to HTTP servers, much as with `requests`."""

from __future__ import annotations

import json as _json
from typing import Any, Mapping
from urllib.parse import urlencode

from .errors import JobError
from .interface import Category, Host, HttpRequest, HttpResponse
from .values import to_json

_RETRYABLE = (408, 425, 429)


class Response:
    """A response with its whole body. Any status is a response; see `raise_for_status`."""

    def __init__(
        self,
        status_code: int = 200,
        *,
        json: Any = None,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Makes a response, for tests."""
        self.status_code = status_code
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}
        self.content = content
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
            return _json.loads(self.content)
        except ValueError as error:
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

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        data: bytes | str = b"",
        timeout: float | None = None,
    ) -> Response:
        """Sends a request and waits for the response. The host adds the headers of the manifest. Redirects are not
        followed. `timeout` is in seconds; the manifest's is the longest."""
        if params:
            url += ("&" if "?" in url else "?") + urlencode(params, doseq=True)
        fields = {**(headers or {})}
        if json is not None:
            data = to_json(json)
            fields = {"content-type": "application/json", **fields}
        body = data.encode() if isinstance(data, str) else data
        ms = None if timeout is None else round(timeout * 1000)
        answer = self._host.http.send(HttpRequest(method, url, list(fields.items()), body, ms))
        return response(answer)


def response(answer: HttpResponse) -> Response:
    """Returns what the host answered. Headers that are there several times are joined."""
    headers: dict[str, str] = {}
    for name, value in answer.headers:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Response(answer.status, content=answer.body, headers=headers)
