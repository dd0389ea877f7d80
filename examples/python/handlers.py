"""A first real job: fetches orders from an API page by page, enqueues a job for each, and remembers how far it came."""

from dataclasses import dataclass
from typing import Annotated

from host_jobs import Ctx, NewJob, handler

CURSOR = "cursor"
"""Where the cursor is kept."""


@dataclass
class Fetch:
    url: Annotated[str, "The address of the orders, without a query."]
    pages: Annotated[int, "How many pages one attempt fetches; the rest follows with the next job."]


@dataclass
class Order:
    id: str
    cents: int


@dataclass
class Fetched:
    orders: int
    cursor: Annotated[str | None, "Where the next job continues."]


@handler("fetch-orders")
def fetch_orders(ctx: Ctx, params: Fetch) -> Fetched:
    """Fetches new orders and enqueues a job for each."""
    fetched = Fetched(orders=0, cursor=ctx.state.get(CURSOR))
    for page in range(1, params.pages + 1):
        ctx.check_cancelled()
        found = ctx.http.get(params.url, params={"after": fetched.cursor or ""}).raise_for_status().json()
        fetched.orders += len(found["orders"])
        ctx.enqueue_all([NewJob("import-order", order, queue="orders") for order in found["orders"]])
        ctx.progress(100 * page / params.pages, f"{fetched.orders} orders")
        if found["next"] is None:
            break
        fetched.cursor = found["next"]
    # The jobs and the cursor are stored together, exactly if this attempt completes.
    ctx.state.set(CURSOR, fetched.cursor)
    return fetched


@handler("import-order")
def import_order(ctx: Ctx, order: Order) -> Order:
    """Imports one order."""
    ctx.info("imported", order=order.id, cents=order.cents)
    return order
