"""Databases, through the mock host."""

import decimal
import unittest
from typing import Any

from host_jobs import MockHost, Rows, SqlError, SqlErrorKind


def shop(statement: str, params: list[Any]) -> Rows:
    if statement == "SELEC":
        raise SqlError(SqlErrorKind.REFUSED, "42601", "syntax error")
    return Rows(["name", "price"], [[params[0], "1.10"]], 1) if params else Rows([], [])


class Sql(unittest.TestCase):
    def test_rows_are_dicts(self) -> None:
        ctx = MockHost(sql={"shop": shop}).ctx
        rows = ctx.sql("shop").query("SELECT name, price FROM prices WHERE price > $1", [decimal.Decimal("1.05")])
        self.assertEqual(list(rows), [{"name": "1.05", "price": "1.10"}])
        with self.assertRaises(SqlError) as refused:
            ctx.sql("shop").query("SELEC")
        self.assertEqual(refused.exception.code, "42601")
        with self.assertRaises(SqlError):
            ctx.sql("other").query("SELECT 1")
        with self.assertRaises(TypeError):
            ctx.sql("shop").query("SELECT 1", "tea")

    def test_a_transaction_ends_as_its_block_does(self) -> None:
        host = MockHost(sql={"shop": shop})
        with host.ctx.sql("shop").transaction() as transaction:
            transaction.query("INSERT", [1])
        with self.assertRaises(SqlError), host.ctx.sql("shop").transaction() as transaction:
            transaction.query("SELEC")
        statements = [statement for _, statement in host.statements]
        self.assertEqual(statements, ["BEGIN", "INSERT", "COMMIT", "BEGIN", "SELEC", "ROLLBACK"])


if __name__ == "__main__":
    unittest.main()
