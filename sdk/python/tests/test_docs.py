"""The examples of the documents, run with the mock host."""

import pathlib
import re
import unittest
from typing import Any

from host_jobs import MockHost, Response, Rows

_DOCS = pathlib.Path(__file__).parents[3] / "docs"


def load(name: str) -> None:
    """Runs the Python of a document, which defines handlers."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (_DOCS / f"{name}.md").read_text(), re.M | re.S)
    assert blocks, f"{name} has examples"
    for code in blocks:
        exec(compile(code, f"{name}.md", "exec"), {"__name__": name})


class Docs(unittest.TestCase):
    def test_requests(self) -> None:
        load("requests")
        host = MockHost(answer=lambda _: Response(json={"id": "ch_1"}))
        self.assertEqual(host.call("charge", {"amount": 7}), {"id": "ch_1"})
        self.assertEqual(host.requests[0].method, "POST")

    def test_databases(self) -> None:
        load("databases")

        def answer(statement: str, _: list[Any]) -> Rows:
            rows = [["acme", "1.10"]] if statement.startswith("SELECT") else []
            return Rows(["customer", "total"], rows)

        host = MockHost(sql={"shop": answer})
        self.assertEqual(host.call("report", "2026-01-01"), 1)
        self.assertEqual(host.statements[-1][1], "COMMIT")


if __name__ == "__main__":
    unittest.main()
