"""What engines are compared by. Each handler returns a number, so that all can be seen to have done the same."""

import asyncio
import json
from typing import Any

from host_jobs import Ctx, handler

LINE = 'täglich, 12.5; "a b"\n'


@handler("text")
def text(ctx: Ctx, params: Any) -> int:
    data = (LINE * 50_000).encode()
    lines = data.decode().split("\n")
    return sum(len(line.upper().replace('"', "").split(" ")) for line in lines)


@handler("json")
def of_json(ctx: Ctx, params: Any) -> float:
    rows = [{"id": id, "name": f"name {id}", "tags": ["a", "b"], "price": id / 4} for id in range(10_000)]
    total: float = sum(row["price"] for row in json.loads(json.dumps(rows)))
    return total


async def following(number: int) -> int:
    return number + 1


@handler("promises")
async def promises(ctx: Ctx, params: Any) -> int:
    number = 0
    while number < 50_000:
        number = await following(number)
    many = await asyncio.gather(*(following(number) for _ in range(10_000)))
    return number + len(many)


def fibonacci(number: int) -> int:
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


@handler("recursion")
def recursion(ctx: Ctx, params: Any) -> int:
    return fibonacci(25)
