"""Lets packages that use sockets and event loops reach what the host offers, while a handler runs."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import socket
import sys
from typing import Any, Iterator

from . import sockets
from .interface import Host

_installed = False
_RECURSION = 6000
"""How deep calls may be in a component."""


@contextlib.contextmanager
def use(host: Host) -> Iterator[None]:
    """Makes `host` the one that requests and sleeps go to."""
    before, sockets.host = sockets.host, host
    try:
        if _installed:
            yield
        else:
            with _patched():
                yield
    finally:
        sockets.host = before


def install() -> None:
    """Replaces sockets, `ssl` and the event loop for good: a component has none."""
    global _installed
    _installed = sockets.is_component = True
    for name, value in _of_socket().items():
        setattr(socket, name, value)
    from . import tls

    tls.install()
    sys.meta_path.insert(0, _Events())


def _of_socket() -> dict[str, Any]:
    return {
        "socket": sockets.Socket,
        "create_connection": sockets.create_connection,
        "getaddrinfo": sockets.getaddrinfo,
    }


@contextlib.contextmanager
def _patched() -> Iterator[None]:
    """Replaces them while a test runs a handler."""
    import asyncio.events
    import ssl
    from unittest import mock

    from .loop import Loop
    from .tls import SSLObject

    def wrap(_: ssl.SSLContext, sock: Any, *_arguments: Any, **_options: Any) -> Any:
        sock.is_tls = True
        return sock

    def wrap_bio(context: Any, incoming: Any, outgoing: Any, *_arguments: Any, **_options: Any) -> Any:
        return SSLObject(context, incoming, outgoing)

    with contextlib.ExitStack() as stack:
        for name, value in _of_socket().items():
            stack.enter_context(mock.patch.object(socket, name, value))
        stack.enter_context(mock.patch.object(ssl.SSLContext, "wrap_socket", wrap))
        stack.enter_context(mock.patch.object(ssl.SSLContext, "wrap_bio", wrap_bio))
        for module in (asyncio, asyncio.events):
            stack.enter_context(mock.patch.object(module, "new_event_loop", Loop))
        deepest = sys.getrecursionlimit()
        stack.callback(sys.setrecursionlimit, deepest)
        sys.setrecursionlimit(max(deepest, _RECURSION))
        yield


class _Events(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds our loop where Python's would need sockets."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if name == "asyncio.unix_events" else None

    def exec_module(self, module: Any) -> None:
        import asyncio.events

        from .loop import Loop

        base = getattr(asyncio.events, "_BaseDefaultEventLoopPolicy")  # noqa: B009 (types of older versions have none)
        policy = type("_DefaultEventLoopPolicy", (base,), {"_loop_factory": Loop})
        module.SelectorEventLoop = module.EventLoop = Loop
        module._DefaultEventLoopPolicy = policy
        module.__all__ = ("SelectorEventLoop", "EventLoop")
