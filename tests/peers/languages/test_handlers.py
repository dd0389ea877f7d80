"""Tests of the handlers."""

import unittest

from handlers import fetches
from host_jobs import MockHost, Response


class Handlers(unittest.TestCase):
    def test_a_request_is_sent(self):
        host = MockHost(answer=lambda request: Response(201, content=request.body))
        self.assertEqual(host.run(fetches, {"url": "https://a.b/c"}), [201, "hello"])
