"""What each language is measured and stopped with."""

from typing import Any

from host_jobs import Ctx, handler


@handler("count")
def count(ctx: Ctx, params: dict[str, str]) -> Any:
    lines = params["text"].splitlines()
    return {"lines": len(lines), "words": sum(len(line.split()) for line in lines)}


@handler("spin")
def spin(ctx: Ctx, params: Any) -> None:
    ctx.info("spinning")
    while True:
        pass
