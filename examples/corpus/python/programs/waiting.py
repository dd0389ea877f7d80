"""Concurrency and retries."""

import asyncio
from contextlib import suppress
from typing import Any

from host_jobs import Ctx, NewJob, Retry, handler


@handler("fan-out")
async def fan_out(ctx: Ctx, params: list[int]) -> dict[str, Any]:
    """Waits for tasks, of which one is too slow."""

    async def square(number: int) -> int:
        await asyncio.sleep(number / 1000)
        return number * number

    squares = await asyncio.gather(*(square(number) for number in params))
    late = False
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)
    except TimeoutError:
        late = True
    return {"squares": squares, "late": late}


@handler("worker-queue")
def worker_queue(ctx: Ctx, params: list[str]) -> list[str]:
    """Runs workers on a queue, and cancels them when it is empty."""

    async def main() -> list[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        done: list[str] = []

        async def work() -> None:
            while True:
                text = await queue.get()
                await asyncio.sleep(0.001)
                done.append(text.upper())
                queue.task_done()

        for text in params:
            queue.put_nowait(text)
        workers = [asyncio.create_task(work()) for _ in range(2)]
        await queue.join()
        for worker in workers:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker
        return sorted(done)

    return asyncio.run(main())


@handler("too-early")
def too_early(ctx: Ctx, params: float) -> None:
    """Asks for a retry after a time that may have passed."""
    raise Retry("not yet", after=params)


@handler("no-sleep")
def no_sleep(ctx: Ctx, params: float) -> str:
    """Sleeps for a time that may have passed."""
    ctx.sleep(params)
    return "awake"


@handler("deep")
def deep(ctx: Ctx, params: int) -> list[Any]:
    """Calls itself as deep as it may, and catches what is too deep."""

    def below(left: int) -> int:
        return 0 if left == 0 else 1 + below(left - 1)

    try:
        below(10**6)
    except RecursionError:
        return [below(params), "too deep"]
    return []


@handler("follow-up")
def follow_up(ctx: Ctx, params: list[str]) -> int:
    """Refuses to be wrong in silence: a key of state must be a text."""
    try:
        ctx.state.set(5, "five")  # type: ignore[arg-type]
    except TypeError as error:
        ctx.info("refused", why=error)
    try:
        ctx.enqueue({"handler": "a"})  # type: ignore[arg-type]
    except TypeError as error:
        ctx.info("refused", why=error)
    return len([NewJob("a", text) for text in params])
