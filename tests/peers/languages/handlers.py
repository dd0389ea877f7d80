"""Handlers that fail deep inside, that try to connect, and that send requests."""

import os
import random
import socket
from typing import Any

import outgoing
from host_jobs import Ctx, handler


@handler("throws")
def throws(ctx: Ctx, params: Any) -> int:
    return deep(3)


def deep(n: int) -> int:
    if n == 0:
        raise ValueError("not caught here")
    return deep(n - 1)


@handler("connects")
def connects(ctx: Ctx, params: Any) -> None:
    with socket.create_connection(("127.0.0.1", 6379)) as connection:
        connection.sendall(b"PING\r\n")
        connection.recv(16)


@handler("fetches")
def fetches(ctx: Ctx, params: dict[str, str]) -> list[Any]:
    response = ctx.http.post(params["url"], data="hello", headers={"x-from": "handler"})
    return [response.status_code, response.text]


@handler("fetches-itself")
def fetches_itself(ctx: Ctx, params: dict[str, str]) -> Any:
    return outgoing.post(params["url"], b"hello", {"x-from": "handler"})


@handler("random")
def random_numbers(ctx: Ctx, params: Any) -> list[Any]:
    return [random.random(), os.urandom(8).hex()]


MADE = random.random()


@handler("at-import")
def at_import(ctx: Ctx, params: Any) -> float:
    return MADE
