"""Which requests are sent again, against a server that answers as each test says."""

import json
import socket
import threading
import unittest

from host_jobs_client import Changed, Client, JobFailed, Missed, Refused, ResultWithheld, Unreachable
from host_jobs_client.transport import Pauses

ACCEPTED = {"id": "a", "state": "available", "existing": False}


def answer(status, document, more=""):
    body = json.dumps(document)
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{more}\r\n{body}"


def refusal(status, code, more="retry-after: 0\r\n"):
    return answer(status, {"title": "Title", "detail": "Detail", "code": code, "next": "Next"}, more)


def stream(*blocks):
    return "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + "\n\n".join([*blocks, ""])


def change(number):
    return f'id: {number}\nevent: change\ndata: {{"job": "a", "to": "running"}}'


class Server:
    """Answers each request with the next text, and closes the connection if it is empty or has no length."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.run, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self):
        while self.answers:
            connection = self.listener.accept()[0]
            with connection, connection.makefile("rb") as file:
                while self.answers and self.serve(connection, file):
                    pass
        self.listener.close()

    def serve(self, connection, file):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = file.readline()
            if not line:
                return False
            head += line
        lines = head.decode().lower().split("\r\n")
        length = next((int(it.split(":")[1]) for it in lines if it.startswith("content-length:")), 0)
        self.requests.append((head.decode(), file.read(length)))
        text = self.answers.pop(0)
        connection.sendall(text.encode())
        return "content-length" in text


class Requests(unittest.TestCase):
    def client(self, server, **options):
        client = Client(server.address, **options)
        self.addCleanup(client.close)
        return client

    def test_an_enqueue_is_sent_again_with_its_key(self):
        server = Server("", refusal(503, "stopping"), refusal(504, "outcome_unknown"), answer(201, ACCEPTED))
        self.assertEqual(self.client(server).enqueue("echo", {"a": 1}), ACCEPTED)
        bodies = [json.loads(body) for _, body in server.requests]
        self.assertEqual(len(bodies), 4)
        self.assertEqual([bodies[0]] * 4, bodies)
        self.assertEqual(bodies[0]["unique"]["scope"], "retained")

    def test_with_another_key_it_may_have_been_carried_out(self):
        for options in ({"unique_key": "k"}, {"unique": {"key": "k"}}):
            server = Server("", answer(201, ACCEPTED))
            with self.assertRaises(Unreachable) as raised:
                self.client(server).enqueue("echo", **options)
            self.assertTrue(raised.exception.may_have_happened)
            self.assertEqual(len(server.requests), 1)

    def test_what_had_no_effect_is_sent_again(self):
        job = {"id": "a", "state": "available"}
        server = Server(refusal(429, "rate_limited"), refusal(503, "busy"), answer(200, job))
        self.assertEqual(self.client(server).retry("a/b?"), job)
        self.assertIn("POST /api/v1/jobs/a%2Fb%3F/retry ", server.requests[2][0])
        server = Server(refusal(503, "stopping"), answer(200, job))
        with self.assertRaises(Refused) as raised:
            self.client(server).retry("a")
        refused = raised.exception
        self.assertEqual((refused.status, refused.code, refused.next), (503, "stopping", "Next"))
        self.assertEqual(str(refused), "Title: Detail (stopping)")

    def test_what_is_withheld_is_raised_by_name(self):
        job = {"id": "a", "state": "completed", "withheld": ["params", "result"]}
        with self.assertRaises(ResultWithheld) as raised:
            self.client(Server(answer(201, ACCEPTED), answer(200, job))).enqueue_and_wait("echo")
        self.assertEqual(raised.exception.job, job)
        self.assertIn("read_own", str(raised.exception))
        failed = {**job, "state": "discarded", "failure": {"kind": "trapped"}, "withheld": ["failure"]}
        with self.assertRaises(JobFailed) as raised:
            self.client(Server(answer(200, failed))).result("a")
        self.assertIn("trapped: its message is withheld", str(raised.exception))

    def test_patience_ends(self):
        server = Server(refusal(429, "rate_limited", "retry-after: 60\r\n"))
        with self.assertRaises(Refused) as raised:
            self.client(server, patience=10).job("a")
        self.assertEqual(raised.exception.retry_after, 60)
        with self.assertRaises(Unreachable) as gone:
            Client("http://127.0.0.1:1", token="hst_secret", patience=0).enqueue("echo")
        self.assertFalse(gone.exception.may_have_happened)
        self.assertNotIn("hst_secret", str(gone.exception))
        self.assertFalse(Pauses(0).pause())

    def test_arrays_have_at_most_1000_jobs(self):
        sizes = []
        server = Server(*(answer(201, [ACCEPTED] * size) for size in (1000, 1000, 500)))
        jobs = ({"handler": "echo", "params": number} for number in range(2500))
        self.assertEqual(self.client(server).enqueue_many(jobs, lambda page: sizes.append(len(page))), 2500)
        self.assertEqual(sizes, [1000, 1000, 500])
        self.assertEqual([len(json.loads(body)) for _, body in server.requests], sizes)
        large = [{"handler": "echo", "params": "x" * (3 << 20)}] * 2
        server = Server(answer(201, [ACCEPTED]), answer(201, [ACCEPTED]))
        self.assertEqual(self.client(server).enqueue_many(large), 2)
        for named in ("#0", {"job": "#0", "when": "ended"}):
            with self.assertRaises(ValueError):
                Client("http://127.0.0.1:1").enqueue_many([{"handler": "echo", "depends_on": [named]}])

    def test_a_stream_goes_on_where_it_was(self):
        gap = 'id: 9\nevent: gap\ndata: {"lost": 2}'
        server = Server(
            stream(": listening\nid: 5"), stream(": listening\nid: 5", change(6), change(7))[:-20],
            stream(": listening\nid: 6", change(7), gap), refusal(401, "unauthenticated"),
        )  # fmt: skip
        events = self.client(server).events(queue="mail")
        self.assertEqual([next(events).id for _ in range(3)], [6, 7, 9])
        self.assertEqual(events.last_id, 9)
        with self.assertRaises(Refused):
            next(events)
        heads = [head.lower() for head, _ in server.requests]
        self.assertNotIn("last-event-id", heads[0])
        for head, id in zip(heads[1:], (5, 6, 9)):
            self.assertIn(f"last-event-id: {id}\r\n", head)

    def test_the_kinds_of_events(self):
        server = Server(stream(": listening", change(1), 'id: 2\nevent: gap\ndata: {"lost": 1}', "event: new\ndata: {}"))
        events = self.client(server, patience=0).events()
        self.assertIsInstance(next(events), Changed)
        self.assertIsInstance(next(events), Missed)
        with self.assertRaises(Unreachable):
            next(events)
