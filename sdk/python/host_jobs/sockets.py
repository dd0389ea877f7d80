"""Sockets for packages. Those of servers that the manifest grants with `tcp` are connections. Others are for packages that send HTTP
requests, such as `urllib`, `requests` and `httpx`: what is written to one is a request, which the host sends as it sends those of
`ctx.http`; what is read is the response. TLS is the host's."""

from __future__ import annotations

import http as _http
import io
import socket as _socket
from typing import Any

from .interface import Host, HttpError, HttpErrorKind, HttpRequest, HttpResponse
from .limits import check_request

TLS = b"\0tls\0"
"""What a package writes first where it would begin TLS itself."""
_OF_CONNECTION = {
    "host", "connection", "content-length", "transfer-encoding", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "expect",
}  # fmt: skip
"""Headers of a connection, which the host makes itself."""
_SENT_ANYWAY = HttpErrorKind.UNREACHABLE, HttpErrorKind.UNAVAILABLE

_Connection = _socket.socket
_look_up = _socket.getaddrinfo
_PASSED_ON = (
    "sendall", "send", "recv", "recv_into", "makefile", "settimeout", "gettimeout", "setblocking", "getpeername", "getsockname", "fileno",
    "shutdown", "close", "detach",
)  # fmt: skip
"""What a connection does itself."""

host: Host | None = None
"""The host of the attempt that runs."""


is_component = False
"""Whether there are connections."""


def _connect(name: str, port: int, timeout: float | None) -> Any:
    """Connects to a server that the manifest grants with `tcp`. Returns None if it grants none."""
    try:
        family, kind, protocol, _, address = _look_up(name, port, 0, _socket.SOCK_STREAM)[0]
        connection = _Connection(family, kind, protocol)
        connection.settimeout(timeout)
        connection.connect(address)
    except PermissionError:
        return None
    except _socket.gaierror:
        return None
    return connection


class Socket:
    """A connection to a server, of one request."""

    _sslobj = None  # What `httpx` looks at.

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        if fileno is not None or (type != -1 and not type & _socket.SOCK_STREAM):
            raise OSError("a component has no sockets except for HTTP requests")
        self.family, self.type, self.proto = _socket.AF_INET, _socket.SOCK_STREAM, 6
        self.is_tls = False
        self._address: tuple[str, int] | None = None
        self._timeout: float | None = None
        self._sent = bytearray()
        self._answer: io.BytesIO | None = None

    def connect(self, address: tuple[Any, ...]) -> None:
        """Notes the server."""
        name = address[0]
        self._address = (name.decode() if isinstance(name, bytes) else str(name), int(address[1]))
        connection = _connect(*self._address, self._timeout) if is_component else None
        for method in _PASSED_ON if connection else ():
            setattr(self, method, getattr(connection, method))

    def connect_ex(self, address: tuple[Any, ...]) -> int:
        self.connect(address)
        return 0

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Adds to the request."""
        if self._answer is not None:
            self._sent, self._answer = bytearray(), None
        self._sent += data
        if self._sent.startswith(TLS):
            del self._sent[: len(TLS)]
            self.is_tls = True

    def send(self, data: Any, flags: int = 0) -> int:
        self.sendall(data)
        return len(memoryview(data).cast("B"))

    def is_complete(self) -> bool:
        """Returns whether the whole request is written."""
        return _request(bytes(self._sent)) is not None

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Returns a part of the response."""
        return self._response().read(size)

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        view = memoryview(buffer).cast("B")
        data = self.recv(size or len(view))
        view[: len(data)] = data
        return len(data)

    def makefile(self, mode: str = "r", buffering: int | None = None, **_: Any) -> Any:
        """Returns the response as a file."""
        if "w" in mode:
            return io.BufferedWriter(_Writer(self))
        return io.BufferedReader(_Reader(self))

    def _response(self) -> io.BytesIO:
        if self._answer is None:
            self._answer = io.BytesIO(self._exchange())
        return self._answer

    def _exchange(self) -> bytes:
        request = _request(bytes(self._sent))
        if request is None or self._address is None:
            raise OSError("a component has no sockets except for HTTP requests")
        if host is None:
            raise OSError("requests can be sent only while a handler runs")
        method, target, headers, body = request
        name, port = self._address
        scheme, usual = ("https", 443) if self.is_tls else ("http", 80)
        if ":" in name:
            name = f"[{name}]"
        url = target if "://" in target else f"{scheme}://{name}{'' if port == usual else f':{port}'}{target}"
        sent = [(name, value) for name, value in headers if name.lower() not in _OF_CONNECTION]
        ms = None if self._timeout is None else max(1, min(round(self._timeout * 1000), 0xFFFFFFFF))
        try:
            answer = host.http.send(check_request(HttpRequest(method, url, sent, body, ms)))
        except HttpError as error:
            # Packages retry what they know. Any other error is the author's or the operator's, and ends the attempt.
            if error.kind is HttpErrorKind.TIMED_OUT:
                raise TimeoutError(error.message) from error
            if error.kind in _SENT_ANYWAY:
                raise ConnectionError(error.message) from error
            raise
        return _written(answer, method)

    def settimeout(self, timeout: float | None) -> None:
        self._timeout = timeout

    def gettimeout(self) -> float | None:
        return self._timeout

    def setblocking(self, blocking: bool) -> None:
        pass

    def setsockopt(self, *_: Any) -> None:
        pass

    def getsockopt(self, *_: Any) -> int:
        return 0

    def getpeername(self) -> tuple[str, int]:
        return self._address or ("", 0)

    def getsockname(self) -> tuple[str, int]:
        return ("", 0)

    def getpeercert(self, binary_form: bool = False) -> Any:
        return b"" if binary_form else {}

    def selected_alpn_protocol(self) -> str | None:
        return "http/1.1" if self.is_tls else None

    def version(self) -> str:
        return "TLSv1.3"

    def cipher(self) -> tuple[str, str, int]:
        return ("TLS_AES_128_GCM_SHA256", "TLSv1.3", 128)

    def fileno(self) -> int:
        return -1

    def shutdown(self, how: int) -> None:
        pass

    def unwrap(self) -> Socket:
        return self

    def close(self) -> None:
        pass

    detach = close

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def _refuse(self, *_: Any, **_options: Any) -> Any:
        raise OSError("a component has no sockets except for HTTP requests")

    bind = listen = accept = sendto = sendmsg = sendfile = recvfrom = recvfrom_into = recvmsg = recvmsg_into = _refuse
    share = ioctl = get_inheritable = set_inheritable = _refuse


class _Reader(io.RawIOBase):
    def __init__(self, of: Socket) -> None:
        self._of = of

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._of.recv_into(buffer)


class _Writer(io.RawIOBase):
    def __init__(self, of: Socket) -> None:
        self._of = of

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._of.send(data)


def _request(sent: bytes) -> tuple[str, str, list[tuple[str, str]], bytes] | None:
    """Returns method, target, headers and body of a request in HTTP/1.1, once it is complete."""
    head, end, body = sent.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if not end or len(words) != 3 or not words[2].startswith("HTTP/1"):
        return None
    pairs = [line.partition(":") for line in lines]
    headers = [(name.strip(), value.strip()) for name, _, value in pairs]
    named = {name.lower(): value for name, value in headers}
    if "chunked" in named.get("transfer-encoding", "").lower():
        whole = _unchunked(body)
    else:
        length = int(named.get("content-length") or 0)
        whole = body[:length] if len(body) >= length else None
    return None if whole is None else (words[0], words[1], headers, whole)


def _unchunked(body: bytes) -> bytes | None:
    parts: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(body[at:end].split(b";")[0], 16)
        if size == 0:
            return b"".join(parts) if body.find(b"\r\n", end + 2) >= 0 else None
        if len(body) < end + 4 + size:
            return None
        parts.append(body[end + 2 : end + 2 + size])
        at = end + 4 + size


def _written(answer: HttpResponse, method: str) -> bytes:
    """Returns a response in HTTP/1.1."""
    try:
        reason = _http.HTTPStatus(answer.status).phrase
    except ValueError:
        reason = ""
    lines = [f"HTTP/1.1 {answer.status} {reason}"]
    without_body = method == "HEAD" or answer.status in (204, 304)
    for name, value in answer.headers:
        if name.lower() not in _OF_CONNECTION or (without_body and name.lower() == "content-length"):
            lines.append(f"{name}: {value}")
    if not without_body:
        lines.append(f"content-length: {len(answer.body)}")
    head = "\r\n".join([*lines, "connection: close", "", ""])
    return head.encode("latin-1", "replace") + (b"" if without_body else answer.body)


def create_connection(address: tuple[Any, ...], timeout: Any = None, *_: Any, **_options: Any) -> Socket:
    """Takes the place of `socket.create_connection`."""
    made = Socket()
    made.connect(address)
    if isinstance(timeout, (int, float)):
        made.settimeout(timeout)
    return made


def getaddrinfo(name: Any, port: Any, *_: Any, **_options: Any) -> list[tuple[Any, ...]]:
    """Takes the place of `socket.getaddrinfo`: the host looks names up."""
    name = name.decode() if isinstance(name, bytes) else name
    return [(_socket.AF_INET, _socket.SOCK_STREAM, 6, "", (name, int(port or 0)))]
