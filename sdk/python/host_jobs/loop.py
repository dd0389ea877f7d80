"""An event loop without sockets: it sleeps by the host. Connections carry HTTP requests, which are sent one after another."""

from __future__ import annotations

import asyncio
import asyncio.base_events
import asyncio.events
import math
import time
from typing import Any, Callable

from . import sockets


class Loop(asyncio.base_events.BaseEventLoop):
    """Runs `async` functions in a component and in tests."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self._ahead = 0.0

    def time(self) -> float:
        """Returns seconds. Sleeps of a mock host count, too."""
        return time.monotonic() + self._ahead

    def select(self, timeout: float | None) -> list[Any]:
        """Sleeps until a timer is due."""
        if timeout is None:
            raise RuntimeError("each task waits for another, or for what no task does: nothing can continue")
        if timeout > 0 and sockets.host is not None:
            until = self.time() + timeout
            sockets.host.control.sleep_ms(min(math.ceil(timeout * 1000), 0xFFFFFFFF))
            self._ahead += max(0.0, until - self.time())
        return []

    def _process_events(self, _events: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Calls the function: a component has one thread."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return sockets.getaddrinfo(host, port)

    async def sock_connect(self, sock: Any, address: Any) -> None:
        sock.connect(address)

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, *, ssl: Any = None, sock: Any = None, **_: Any
    ) -> Any:
        """Returns a connection that carries one request."""
        if sock is None:
            sock = sockets.create_connection((host, port))
        sock.is_tls = sock.is_tls or bool(ssl)
        protocol = protocol_factory()
        transport = _Transport(self, sock, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    async def start_tls(self, transport: Any, protocol: Any, sslcontext: Any, **_: Any) -> Any:
        transport.sock.is_tls = True
        transport.set_protocol(protocol)
        return transport


class _Transport(asyncio.Transport):
    def __init__(self, loop: Loop, sock: sockets.Socket, protocol: Any) -> None:
        super().__init__({"socket": sock, "peername": sock.getpeername(), "sockname": ("", 0)})
        self.loop, self.sock, self._protocol, self._closed = loop, sock, protocol, False

    def write(self, data: Any) -> None:
        self.sock.sendall(data)
        if self.sock.is_complete():
            self.loop.call_soon(self._receive)

    def _receive(self) -> None:
        if self._closed:
            return
        try:
            data = self.sock.recv(-1)
        except BaseException as error:
            self._close(error)
            return
        self._protocol.data_received(data)
        self._protocol.eof_received()
        self._close(None)

    def _close(self, error: BaseException | None) -> None:
        if not self._closed:
            self._closed = True
            self.loop.call_soon(self._protocol.connection_lost, error)

    def close(self) -> None:
        self._close(None)

    abort = close

    def is_closing(self) -> bool:
        return self._closed

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def is_reading(self) -> bool:
        return not self._closed
