"""Tests that pass on a machine. Those with `only_here` in their names fail in a component."""

import asyncio
import unittest
from pathlib import Path

import handlers
from host_jobs import MockHost


class Handlers(unittest.TestCase):
    def setUp(self):
        self.host = MockHost()

    def test_a_late_import_only_here(self):
        self.assertEqual(self.host.run(handlers.late), "socketserver")

    def test_a_thread_only_here(self):
        self.assertTrue(self.host.run(handlers.threads))

    def test_a_file_only_here(self):
        self.assertEqual(self.host.run(handlers.reads), "a,b\n")

    def test_each_number(self):
        for number in range(2):
            with self.subTest(number=number):
                self.assertEqual(number, int(str(number)))

    @unittest.skip("not today")
    def test_skipped(self):
        raise AssertionError

    def test_logs(self):
        with self.assertLogs() as logs:
            import logging

            logging.info("hello")
        self.assertEqual(logs.output, ["INFO:root:hello"])


class Waiting(unittest.IsolatedAsyncioTestCase):
    async def test_a_method_may_be_async(self):
        self.assertEqual(await asyncio.sleep(0, "slept"), "slept")


def test_a_function():
    assert MockHost().call("waits") == "waited"


def test_a_file_of_the_tests():
    assert Path("rows.csv").read_text() == "a,b\n"


async def test_an_async_function():
    assert await asyncio.sleep(0, "slept") == "slept"
