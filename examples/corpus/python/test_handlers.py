"""Each case gives its result through the mock host, as it does in a cell."""

import json
import unittest
from pathlib import Path

import handlers  # noqa: F401 (registers them)
from host_jobs import HttpRequest, MockHost, Response
from host_jobs.errors import failure

FOLDER = Path(__file__).parent
ORIGIN = "http://corpus.example"


def answer(request: HttpRequest) -> Response:
    answers = json.loads((FOLDER / "answers.json").read_text())
    status, body = answers[request.url.removeprefix(ORIGIN)]
    return Response(status, content=body, headers={"content-type": "application/json"})


def ended(handler: str, params: object) -> object:
    try:
        return {"result": MockHost(answer=answer).call(handler, params)}
    except Exception as error:
        value = failure(error).value
    if hasattr(value, "after_ms"):
        return {"retry": value.after_ms}
    return {"failure": {"kind": value.kind, "code": value.code, "message": value.message}}


class Corpus(unittest.TestCase):
    def test_each_case(self) -> None:
        for case in json.loads((FOLDER / "cases.json").read_text().replace("{origin}", ORIGIN)):
            with self.subTest(case["handler"]):
                self.assertEqual(ended(case["handler"], case["params"]), case["then"])


if __name__ == "__main__":
    unittest.main()
