"""The mock host and the real one agree on the cases of `sdk/cases.json`."""

import json
import pathlib
import unittest

import cases  # noqa: F401 (registers its handlers)
from host_jobs import MockHost, Response
from host_jobs.errors import failure

TABLE = pathlib.Path(__file__).parent.parent.parent / "cases.json"
ORIGIN, OTHER = "http://api.example.com", "http://other.example.com"


def host_of(given):
    answer = given.get("answer")
    if redirects := given.get("redirects"):
        redirected = {url: Response(status, headers={"location": to}) for url, (status, to) in redirects.items()}
    host = MockHost(
        attributes=given.get("attributes"),
        secrets=given.get("secrets"),
        limits=given.get("limits", ()),
        files={name: content.encode() for name, content in given.get("files", {}).items()},
        answer=(redirects and (lambda request: redirected.get(request.url, Response())))
        or (answer and (lambda _: Response(answer["status"], json=answer["json"]))),
    )
    if "cancelled" in given:
        host.cancel(given["cancelled"])
    return host


def ended(host, case):
    """Returns how an attempt ends, as the table says it."""
    try:
        return {"result": host.call(case["handler"], case["params"])}
    except Exception as error:
        told = failure(error)
    kind, value = type(told).__name__, told.value
    if kind == "FailureRetry":
        return {"retry": {"reason": value.reason, "after_ms": value.after_ms}}
    if kind == "FailureCancelled":
        return {"cancelled": json.loads(value)}
    if value.kind == "invalid_params":
        assert value.category.value == "data-quality"
        return {"refused": value.message}
    details = value.details and json.loads(value.details)
    return {"failure": {**vars(value), "category": value.category.value, "details": details}}


class Cases(unittest.TestCase):
    def test_all(self):
        for case in json.loads(TABLE.read_text().replace("{origin}", ORIGIN).replace("{other}", OTHER)):
            with self.subTest(case["name"]):
                self.check(case, case["then"])

    def check(self, case, then):
        host = host_of(case.get("given", {}))
        outcome = ended(host, case)
        if "refused" in then:
            self.assertIn(then["refused"], outcome["refused"])
        elif "failure" in then:
            told = {key: outcome["failure"][key] for key in then["failure"]}
            self.assertEqual(told, then["failure"])
        else:
            expected = {key: then[key] for key in ("result", "retry", "cancelled") if key in then}
            self.assertEqual(outcome, expected)
        if "logs" in then:
            self.assertEqual([[line.level.value, line.message, line.fields] for line in host.logs], then["logs"])
        if "progress" in then:
            self.assertEqual([list(report) for report in host.reports], then["progress"])
        if "holds" in then:
            self.assertEqual([list(hold) for hold in host.holds], then["holds"])
        if "enqueued" in then:
            self.assertEqual([job.document() for job in host.enqueued], then["enqueued"])
        for key, value in then.get("state", {}).items():
            self.assertEqual(host.state_of(key), value)
        if "sent" in then:
            names = [" ".join(sorted(name.lower() for name, _ in it.headers)) for it in host.requests]
            sent = [[it.method, it.url, kept, len(it.body)] for it, kept in zip(host.requests, names)]
            self.assertEqual(sent, then["sent"])
        if "artifacts" in then:
            kept = {name: content.decode() for name, content in host.artifacts_kept.items()}
            self.assertEqual(kept, then["artifacts"])
        if "requests" in then:
            sent = [{"method": it.method, "url": it.url, "body": json.loads(it.body)} for it in host.requests]
            self.assertEqual(sent, then["requests"])
