"""The examples of the documents, run with the mock host."""

import pathlib
import re
import unittest
from typing import Any

from host_jobs import JobError, MockHost, Response, Retry, Rows

_DOCS = pathlib.Path(__file__).parents[3] / "docs"


def load(name: str) -> None:
    """Runs the Python of a document, which defines handlers."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (_DOCS / f"{name}.md").read_text(), re.M | re.S)
    assert blocks, f"{name} has examples"
    for code in blocks:
        exec(compile(code, f"{name}.md", "exec"), {"__name__": name})


class Docs(unittest.TestCase):
    def test_each_page_with_examples_is_here(self) -> None:
        own = pathlib.Path(__file__).read_text()
        for page in _DOCS.rglob("*.md"):
            name = page.relative_to(_DOCS).with_suffix("").as_posix()
            if not name.startswith("decisions/") and "\n```python\n" in page.read_text():
                self.assertIn(f'load("{name}")', own)

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

    def test_files(self) -> None:
        # Only a component has the folder: a test of hosts calls the handler.
        load("files")

    def test_from_sidekiq(self) -> None:
        load("from/sidekiq")
        host = MockHost(answer=lambda _: Response(200))
        self.assertIsNone(host.call("sidekiq-welcome", "ada@example.com"))
        self.assertEqual(host.requests[0].method, "POST")

    def test_from_celery(self) -> None:
        load("from/celery")
        host = MockHost(answer=lambda _: Response(json={"id": "ch_1"}))
        self.assertEqual(host.call("celery-charge", {"id": 7, "amount": 1200}), "ch_1")

    def test_from_sqs(self) -> None:
        load("from/sqs")
        host = MockHost(answer=lambda _: Response(json={"parcel": "p_1"}))
        self.assertEqual(host.call("sqs-ship", {"order": 7}), {"parcel": "p_1"})

    def test_from_temporal(self) -> None:
        load("from/temporal")
        host = MockHost(answer=lambda _: Response(json={"id": "ch_1", "parcel": "p_1"}))
        charge = host.call("temporal-charge", {"amount": 1200})
        self.assertEqual(host.call("temporal-ship", {"inputs": {"charge": charge}}), "p_1")

    def test_from_river(self) -> None:
        load("from/river")
        host = MockHost(answer=lambda _: Response(410))
        with self.assertRaisesRegex(JobError, "the receiver is gone"):
            host.call("river-webhook", {"order": 7})

    def test_errors(self) -> None:
        load("guides/errors")
        host = MockHost(answer=lambda _: Response(429))
        with self.assertRaises(Retry):
            host.call("refund", {"amount": 7})
        with self.assertRaisesRegex(JobError, "not positive"):
            host.call("refund", {"amount": 0})

    def test_schedules(self) -> None:
        load("guides/schedules")
        host = MockHost(attributes={"schedule.nominal": "2026-05-17T00:30:00Z"})
        self.assertEqual(host.call("report"), "the report of 2026-05-17")

    def test_limits(self) -> None:
        load("guides/limits")
        host = MockHost(answer=lambda _: Response(429), limits=["by-customer"])
        with self.assertRaises(Retry):
            host.call("sync", {"customer": "acme"})
        self.assertEqual(host.holds, [("by-customer", 30_000)])

    def test_fan_out(self) -> None:
        load("guides/fan-out")
        host = MockHost(attributes={"batch.id": "b"})
        self.assertEqual(host.call("import-split", {"rows": 2500}), 3)
        self.assertEqual([job.document()["batch"] for job in host.enqueued], ["b"] * 3)
        self.assertIsNone(host.call("import-part", host.enqueued[0].params))
        counts = {"jobs": 3, "completed": 3}
        self.assertEqual(host.call("import-report", {"counts": counts}), "3 of 3 parts")


if __name__ == "__main__":
    unittest.main()
