"""The handlers of the cases in `sdk/cases.json`."""

from dataclasses import dataclass
from typing import Annotated, Any

from host_jobs import Cancelled, Category, Ctx, JobError, NewJob, Retry, handler


@dataclass
class Numbers:
    numbers: Annotated[list[int], "What to add."]


@dataclass
class Total:
    total: int


@dataclass
class Fails:
    fails: bool


@handler("case.sum")
def add(ctx: Ctx, params: Numbers) -> Total:
    """Adds numbers."""
    return Total(sum(params.numbers))


@handler("case.about")
def about(ctx: Ctx, params: Any) -> Any:
    return {"attempt": ctx.job.attempt, "team": ctx.attribute("team"), "other": ctx.attribute("other")}


@handler("case.fail")
def fail(ctx: Ctx, params: Any) -> None:
    category = Category(params["category"])
    raise JobError(
        "no luck", kind="NoLuck", category=category, code="E1", details={"a": 1}, retryable=params["retryable"]
    )


@handler("case.throw")
def throw(ctx: Ctx, params: Any) -> None:
    deep()


def deep() -> None:
    raise ValueError("not caught here")


@handler("case.again")
def again(ctx: Ctx, params: Any) -> None:
    raise Retry("not yet", after=5)


@handler("case.stop")
def stop(ctx: Ctx, params: Any) -> None:
    while ctx.cancelled() is None:
        ctx.sleep(0.01)
    raise Cancelled({"done": 1})


@handler("case.progress")
def progress(ctx: Ctx, params: Any) -> None:
    for rows in (1, 4):
        ctx.progress(rows * 10, f"{rows} of 10 rows")
    while ctx.cancelled() is None:
        ctx.sleep(0.01)
    raise Cancelled({"rows": 4})


@handler("case.log")
def log(ctx: Ctx, params: Any) -> None:
    ctx.info("counted", words=3, of="a file", ratio=0.5, ok=True, parts=[1, None])
    ctx.warn("äö€😀")


@handler("case.keep")
def keep(ctx: Ctx, params: Fails) -> Any:
    count = ctx.state.get("n", 0) + 1
    ctx.state.set("n", count)
    ctx.state.set("n2", {"ä": [None, 0.5]})
    if params.fails:
        ctx.state.now().set("at once", True)
        raise ValueError("asked to fail")
    return [count, list(ctx.state.list("n"))]


@handler("case.compare")
def compare(ctx: Ctx, params: Any) -> list[bool]:
    return [ctx.state.compare_and_set("c", expected, value) for expected, value in ((None, 1), (7, 3), (1, 2))]


@handler("case.order")
def order(ctx: Ctx, params: Fails) -> int:
    ids = ctx.enqueue_all([NewJob("case.log", {"row": row}, queue="rows") for row in (7, 8)])
    if params.fails:
        raise ValueError("asked to fail")
    return len(set(ids))


@handler("case.report")
def report(ctx: Ctx, params: Fails) -> int:
    rows = [("a", 1), ("b", 2)]
    with ctx.artifacts.create("rows.csv", "text/csv") as file:
        for name, count in rows:
            file.write(f"{name},{count}\n".encode())
    ctx.artifacts.create("open").write(b"x")
    if params.fails:
        raise ValueError("asked to fail")
    return len(rows)


@dataclass
class FileToRead:
    file: str


@handler("case.read")
def read(ctx: Ctx, params: FileToRead) -> list[str]:
    with ctx.artifacts.open(params.file) as file:
        return [line.decode().rstrip("\n") for line in file]


@handler("case.sign")
def sign(ctx: Ctx, params: dict[str, str]) -> int:
    return len(ctx.secret(params["secret"]))


@handler("case.hold")
def hold(ctx: Ctx, params: dict[str, str]) -> None:
    ctx.hold(params["limit"], 1.5)
    raise Retry("too many requests", after=5)


@handler("case.large")
def large(ctx: Ctx, params: Any) -> str:
    text, url = "x" * params["bytes"], "http://127.0.0.1:1/"
    match params["what"]:
        case "body":
            ctx.http.post(url, data=text)
        case "header":
            ctx.http.get(url, headers={"x": text})
        case "url":
            ctx.http.get(text)
        case "value":
            ctx.state.set_bytes("k", text.encode())
        case "key":
            ctx.state.get(text)
        case "params":
            ctx.enqueue(NewJob("case.log", text))
        case "statement":
            ctx.sql("shop").query(text)
        case "line":
            ctx.progress(1, text)
            ctx.info(text, **{text: text})
        case _:
            raise ValueError(text)
    return "the attempt continues"


@handler("case.follow")
def follow(ctx: Ctx, params: dict[str, str]) -> int:
    headers = {"Authorization": "mine", "X-Key": "mine", "Accept": "text/plain"}
    return ctx.http.post(params["url"], json={"a": 1}, headers=headers, redirects=20).status_code


@handler("case.call")
def call(ctx: Ctx, params: dict[str, str]) -> Any:
    response = ctx.http.post(params["url"], json={"a": 1}).raise_for_status()
    return {"status": response.status_code, "body": response.json()}
