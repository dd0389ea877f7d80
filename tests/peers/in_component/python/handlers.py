"""Handlers that work in Python on a machine, and not all of them in a component."""

import threading
from pathlib import Path

from host_jobs import Ctx, handler

seen: list[int] = []


@handler("late")
def late(ctx: Ctx, params: None) -> str:
    import socketserver

    return socketserver.__name__


@handler("threads")
def threads(ctx: Ctx, params: None) -> bool:
    thread = threading.Thread(target=seen.append, args=[1])
    thread.start()
    thread.join()
    return True


@handler("reads")
def reads(ctx: Ctx, params: None) -> str:
    return (Path(__file__).parent / "rows.csv").read_text()


@handler("remembers")
def remembers(ctx: Ctx, params: None) -> int:
    seen.append(1)
    return len(seen)


@handler("waits")
async def waits(ctx: Ctx, params: None) -> str:
    return "waited"
