"""What a warm start saves: a table that is made at import, and the same in a job."""

from typing import Any

from host_jobs import Ctx, handler

Table = dict[str, dict[str, Any]]


def make() -> Table:
    return {f"key-{n}": {"n": n, "name": f"name {n}"} for n in range(20_000)}


MADE = make()


def look(table: Table) -> int:
    found: int = table["key-19999"]["n"]
    return found


@handler("none")
def none(ctx: Ctx, params: Any) -> int:
    return 19_999


@handler("at-import")
def at_import(ctx: Ctx, params: Any) -> int:
    return look(MADE)


@handler("in-the-handler")
def in_the_handler(ctx: Ctx, params: Any) -> int:
    return look(make())
