"""Tests of the handlers, which need no host and no database: `python3 -m unittest`."""

import unittest

from handlers import Price, set_all
from host_jobs import MockHost, Rows


class Prices(unittest.TestCase):
    def test_prices_are_set_together(self) -> None:
        host = MockHost(sql={"shop": lambda statement, _: Rows(["count"], [[1]])})
        self.assertEqual(host.run(set_all, [Price("tea", "1.10")]), 1)
        statements = [statement.split()[0] for _, statement in host.statements]
        self.assertEqual(statements, ["BEGIN", "DELETE", "INSERT", "COMMIT", "SELECT"])


if __name__ == "__main__":
    unittest.main()
