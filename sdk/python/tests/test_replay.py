"""Requests are answered as they were recorded; the other SDKs read the same recording."""

import pathlib
import unittest

from host_jobs import HttpError, MockHost

RECORDING = pathlib.Path(__file__).parent.parent.parent / "recording.har"


class Replayed(unittest.TestCase):
    def test_requests_are_answered_as_they_were_recorded(self):
        http = MockHost(replay=RECORDING.read_text()).ctx.http
        first = http.get("https://a.com/rows")
        self.assertEqual((first.json(), first.headers), ([1], {"content-type": "application/json"}))
        for _ in range(2):
            self.assertEqual(http.get("https://a.com/rows").status_code, 503)
        self.assertEqual(http.post("https://a.com/rows", data="7").status_code, 201)
        with self.assertRaisesRegex(HttpError, "POST https://a.com/rows is not in the recording"):
            http.post("https://a.com/rows", data="8")
        self.assertEqual(http.get("https://a.com/picture").content, b"\x00\xff\x90\xff")
        with self.assertRaisesRegex(HttpError, "got no response"):
            http.get("https://a.com/blocked")


if __name__ == "__main__":
    unittest.main()
