"""Tests of the handlers, with an API that fails."""

import unittest
from urllib.parse import parse_qs, urlsplit

from handlers import CURSOR, Fetch, Fetched, fetch_orders
from host_jobs import JobError, MockHost, Response


def api(fails_after):
    """An API with the orders 1 to 5, two on a page. It fails at the page after `fails_after`."""

    def answer(request):
        after = parse_qs(urlsplit(request.url).query).get("after", [""])[0]
        if after == fails_after:
            return Response(503)
        first = int(after or 0) + 1
        orders = list(range(first, 6))[:2]
        rows = [{"id": str(n), "cents": 100 * n} for n in orders]
        return Response(200, json={"orders": rows, "next": str(orders[-1]) if orders else None})

    return answer


def fetch(host, pages):
    return host.run(fetch_orders, Fetch("https://api.example.com/orders", pages))


class FirstRealJob(unittest.TestCase):
    def test_each_job_goes_on_where_the_last_one_ended(self):
        host = MockHost(answer=api("never"))
        self.assertEqual(fetch(host, 2), Fetched(4, "4"))
        self.assertEqual(fetch(host, 2).orders, 1)
        self.assertEqual(fetch(host, 2).orders, 0, "nothing is new")
        self.assertEqual([job.params["id"] for job in host.enqueued], ["1", "2", "3", "4", "5"])
        self.assertEqual(host.enqueued[4].queue, "orders")
        self.assertEqual(host.state_of(CURSOR), "5")

    def test_an_attempt_that_fails_in_the_middle_leaves_nothing(self):
        host = MockHost(answer=api("2"))
        fetch(host, 1)
        with self.assertRaises(JobError) as raised:
            fetch(host, 2)
        self.assertTrue(raised.exception.retryable)
        self.assertEqual(len(host.enqueued), 2, "those of the first page")
        self.assertEqual(host.state_of(CURSOR), "2")
