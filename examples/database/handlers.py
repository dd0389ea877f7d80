"""The prices of a shop, in its database: by a library that opens connections, and by statements."""

from dataclasses import dataclass

import pg8000.native

from host_jobs import Ctx, handler


@dataclass
class Price:
    """What is sold, and for how much."""

    name: str
    price: str


@dataclass
class Where:
    """The port of the database."""

    port: int = 5432


@handler("prices/ls")
def ls(ctx: Ctx, where: Where) -> list[Price]:
    """Lists all prices. The host signs in, so the user does not matter here, and there is no password."""
    connection = pg8000.native.Connection("handler", host="db.internal", port=where.port)
    rows = connection.run("SELECT name, price FROM prices ORDER BY name")
    connection.close()
    return [Price(name, str(price)) for name, price in rows]


@handler("prices/set")
def set_all(ctx: Ctx, prices: list[Price]) -> int:
    """Sets prices, all or none. Returns how many there are."""
    shop = ctx.sql("shop")
    with shop.transaction() as transaction:
        for price in prices:
            transaction.query("DELETE FROM prices WHERE name = $1", [price.name])
            transaction.query("INSERT INTO prices VALUES ($1, $2)", [price.name, price.price])
    return next(iter(shop.query("SELECT count(*) AS count FROM prices")))["count"]
