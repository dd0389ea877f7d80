"""Tests that fail on a machine too, or would not have an instance of their own there."""

import unittest

from beside import call


class TestPlain:
    def test_method(self):
        pass


class Numbers(unittest.TestCase):
    def test_sum(self):
        print("printed before it fails")
        self.assertEqual(1 + 1, 3, "sums are off")

    def test_remembers(self):
        self.assertEqual(call("remembers"), 1)


def test_remembers():
    assert call("remembers") == 1


def test_fixture(tmp_path):
    pass
