"""What Python offers and a component has not: threads say so, and the time of the process begins with the attempt."""

import _thread
import sys
import threading
import time

_RECURSION = 6000
"""How deep calls may be. A cell has room for the stack of this many."""


def _no_thread(*_arguments, **_options):
    raise RuntimeError("a component has one thread: use `asyncio.gather`, or enqueue jobs")


_first_ns: int | None = None


def _process_time_ns() -> int:
    global _first_ns
    now = time.perf_counter_ns()
    if _first_ns is None or now < _first_ns:
        _first_ns = now
    return now - _first_ns


def _process_time() -> float:
    return _process_time_ns() / 1e9


def install() -> None:
    """Replaces what fails in a component."""
    for name in ("start_new_thread", "start_new", "start_joinable_thread"):
        setattr(_thread, name, _no_thread)
        setattr(threading, f"_{name}", _no_thread)
    time.process_time, time.process_time_ns = _process_time, _process_time_ns
    sys.setrecursionlimit(_RECURSION)


def begin() -> None:
    """Forgets what the build has measured."""
    global _first_ns
    _first_ns = None
