"""The stream of events, which continues where it was when a connection breaks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Iterator

from .api import Api, Change, Gap, ProgressEvent
from .errors import Refused, Unreachable
from .transport import Answer, Pauses, Transport, filled

# The host says something at least every 15 seconds.
SILENCE_SECONDS = 45.0


@dataclass(frozen=True)
class Changed:
    """A job entered, changed or left its state."""

    id: int
    data: Change


@dataclass(frozen=True)
class Progressed:
    """A running job reported progress."""

    data: ProgressEvent


@dataclass(frozen=True)
class Missed:
    """Changes were missed that the host no longer keeps."""

    id: int
    data: Gap


Event = Changed | Progressed | Missed


class Events(Iterator[Event]):
    """Events as an iterator. `last_id` is where another stream may continue: `client.events(after=…)`."""

    def __init__(self, transport: Transport, api: Api, job: str | None, queue: str | None, after: int | None):
        self._transport, self._api, self._job = transport, api, job
        self._path = filled("/api/v1/events", (), {"job": job, "queue": queue})
        self.last_id = after
        self._answer: Answer | None = None
        self._ended = False
        self._pauses: Pauses | None = None
        # So that what happens from now on is in the stream, whenever it is read.
        self._answer = transport.patiently(self._connect, repeatable=True)

    def close(self) -> None:
        """Closes the connection. The stream then ends."""
        self._ended = True
        if self._answer:
            self._answer.close()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __next__(self) -> Event:
        while not self._ended:
            if self._answer is None:
                self._answer = self._transport.patiently(self._connect, repeatable=True)
            broken = None
            try:
                event = self._read(self._answer)
                if event is not None:
                    return event
            except Unreachable as error:
                broken = error
            self._drop()
            # The stream of a job ends with it. That of a host that stops does so, too.
            if broken is None and self._job and self._has_ended(self._job):
                break
            self._pauses = self._pauses or Pauses(self._transport.patience)
            if not self._pauses.pause():
                raise broken or Unreachable(f"{self._transport.server} ends the stream of events again and again", True)
        self.close()
        raise StopIteration

    def _connect(self) -> Answer:
        more = {} if self.last_id is None else {"last-event-id": str(self.last_id)}
        answer = self._transport.open("GET", self._path, None, "", SILENCE_SECONDS, more)
        if self.last_id is None:
            # The first block says where the stream begins.
            self._block(answer)
        return answer

    def _drop(self) -> None:
        if self._answer:
            self._answer.close()
        self._answer = None

    def _has_ended(self, job: str) -> bool:
        try:
            return self._api.jobs.show(job)["state"] in ENDED
        except Refused as error:
            if error.status == 404:
                return True
            raise

    def _read(self, answer: Answer) -> Event | None:
        """Reads up to the next event; `None` is the end of the stream."""
        while (block := self._block(answer)) is not None:
            self._pauses = None
            data = json.loads(block.get("data") or "null")
            match data and block.get("event"):
                case "change":
                    return Changed(int(block["id"]), data)
                case "progress":
                    return Progressed(data)
                case "gap":
                    return Missed(int(block["id"]), data)
        return None

    def _block(self, answer: Answer) -> dict[str, str] | None:
        """Reads lines up to an empty one. Those of the host have one line of data."""
        block: dict[str, str] = {}
        while line := answer.readline():
            text = line.decode().rstrip("\r\n")
            if not text:
                if "id" in block:
                    self.last_id = int(block["id"])
                return block
            name, _, value = text.partition(":")
            block[name] = value.removeprefix(" ")
        return None


ENDED = ("completed", "cancelled", "discarded")
