"""Sends requests, again if that is safe, over connections that are kept. Threads may share it."""

from __future__ import annotations

import http.client
import io
import json
import os
import random
import select
import socket
import ssl
import struct
import threading
import time
from typing import Any, BinaryIO, Callable
from urllib.parse import quote, urlencode, urlsplit

from .errors import HostError, Refused, SettingsError, Unreachable
from .settings import Settings

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
IDLE_MAX = 8
# The host did not carry these out, as docs/errors.md says. After the others with these statuses it may have.
WITHOUT_EFFECT = {"too_many_wrong_tokens", "rate_limited", "share_used", "busy", "store_away", "cascade_unfinished"}
PASSING = {429, 503, 504}


class _Local(http.client.HTTPConnection):
    """A connection to a local socket, unless it is another user's."""

    def __init__(self, path: str):
        super().__init__("localhost", timeout=CONNECT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
        if hasattr(socket, "SO_PEERCRED"):
            credentials = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            user = struct.unpack("3i", credentials)[1]
            if user not in (0, os.geteuid()):
                raise PermissionError(f"the socket belongs to user {user}")


class Transport:
    """The way to one host."""

    def __init__(self, settings: Settings, patience: float):
        self.server = settings.server
        self.patience = patience
        self._headers = {"accept": "application/json", "user-agent": "host-jobs-client-python"}
        if settings.token:
            self._headers["authorization"] = f"Bearer {settings.token}"
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._tls = _tls(settings) if settings.server.startswith("https:") else None

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def call(self, method: str, path: str, places: tuple[str, ...], query: dict[str, Any], body: Any = None) -> Any:
        """Makes an operation of the API."""
        return self.send(method, filled(path, places, query), _json(body), repeatable=method == "GET")

    def send(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None,
        repeatable: bool,
        kind: str = "application/json",
        wait: float = 0,
    ) -> Any:
        """Sends a request, again as long as that is safe and patience lasts, and returns the document of the answer."""

        start = body.tell() if isinstance(body, io.IOBase) and body.seekable() else 0

        def once() -> Any:
            # A file that was sent once is sent again from its start.
            if isinstance(body, io.IOBase) and body.seekable():
                body.seek(start)
            with self.open(method, path, body, kind, ANSWER_SECONDS + wait) as answer:
                text = answer.read()
            try:
                return json.loads(text)
            except ValueError:
                raise HostError(f"{self.server} did not answer with JSON: perhaps it is no host") from None

        return self.patiently(once, repeatable)

    def patiently(self, once: Callable[[], Any], repeatable: bool) -> Any:
        pauses = Pauses(self.patience)
        while True:
            try:
                return once()
            except Unreachable as error:
                if error.may_have_happened and not repeatable or not pauses.pause():
                    raise
            except Refused as error:
                is_safe = repeatable or error.code in WITHOUT_EFFECT
                if error.status not in PASSING or not is_safe or not pauses.pause(error.retry_after):
                    raise

    def open(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None,
        kind: str,
        timeout: float,
        more: dict[str, str] | None = None,
    ) -> Answer:
        """Sends a request once, and returns the answer, of which only the head has been read."""
        headers = {**self._headers, **(more or {})}
        if method != "GET":
            headers["content-type"] = kind
        sent = False
        connection = self._connection()
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(timeout)
            sent = True
            try:
                connection.request(method, path, body, headers)
            except BrokenPipeError:
                # The host may have refused a large body before it had read all of it.
                pass
            answer = Answer(self, connection, connection.getresponse())
            if 200 <= answer.status < 300:
                return answer
            with answer:
                raise _refusal(answer)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                raise SettingsError(f"cannot use TLS with {self.server}: {error}") from None
            raise self.no_answer(error, sent) from None

    def no_answer(self, error: Exception, may_have_happened: bool) -> Unreachable:
        return Unreachable(f"no answer from {self.server}: {error or type(error).__name__}", may_have_happened)

    def _connection(self) -> http.client.HTTPConnection:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                # What can be read is the end of a connection that the host has closed since.
                if not select.select([connection.sock], [], [], 0)[0]:
                    return connection
                connection.close()
        if self.server.startswith("unix://"):
            return _Local(self.server.removeprefix("unix://"))
        parts = urlsplit(self.server)
        if self._tls:
            return http.client.HTTPSConnection(parts.netloc, timeout=CONNECT_SECONDS, context=self._tls)
        return http.client.HTTPConnection(parts.netloc, timeout=CONNECT_SECONDS)

    def keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < IDLE_MAX:
                return self._idle.append(connection)
        connection.close()


class Answer:
    """The answer to a request. Its connection is kept if it was read to its end."""

    def __init__(self, transport: Transport, connection: http.client.HTTPConnection, response: http.client.HTTPResponse):
        self._transport, self._connection, self._response = transport, connection, response
        self.status, self.headers = response.status, response.headers

    def read(self) -> bytes:
        return self._failing(self._response.read)

    def readline(self) -> bytes:
        return self._failing(self._response.readline)

    def _failing(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except (OSError, http.client.HTTPException) as error:
            raise self._transport.no_answer(error, True) from None

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._response.isclosed():
            self._transport.keep(self._connection)
        else:
            self.close()


class Pauses:
    """The pauses between repetitions: each longer than the one before, until patience is over."""

    def __init__(self, patience: float):
        self._end = time.monotonic() + patience
        self._next = 0.1

    def pause(self, at_least: float | None = None) -> bool:
        """Pauses, or returns that patience would be over."""
        seconds = max(self._next * random.uniform(0.8, 1.2), at_least or 0)
        if time.monotonic() + seconds > self._end:
            return False
        self._next = min(self._next * 2, 5.0)
        time.sleep(seconds)
        return True


def filled(path: str, places: tuple[str, ...], query: dict[str, Any]) -> str:
    """Puts names and ids into the places of a path, and adds a query."""
    for name in places:
        if not name:
            raise ValueError("a name or an id is empty")
        before, _, after = path.partition("{")
        path = before + quote(name, safe="~:") + after.partition("}")[2]
    shown = {key: str(value).lower() if isinstance(value, bool) else value for key, value in query.items()}
    text = urlencode({key: value for key, value in shown.items() if value is not None}, quote_via=quote)
    return f"{path}?{text}" if text else path


def _json(body: Any) -> bytes | None:
    return None if body is None else json.dumps(body, allow_nan=False).encode()


def _refusal(answer: Answer) -> Refused:
    after = answer.headers.get("retry-after", "")
    try:
        problem = json.loads(answer.read())
    except ValueError:
        problem = None
    return Refused(
        answer.status, problem if isinstance(problem, dict) else {}, float(after) if after.isdecimal() else None
    )


def _tls(settings: Settings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.client_cert:
            context.load_cert_chain(settings.client_cert, settings.client_key)
        return context
    except OSError as error:
        raise SettingsError(f"cannot use the files for TLS: {error}") from None
