"""Files that a job produces, which are kept with it exactly if the attempt completes, and files that it reads."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from . import given
from .interface import Host

_CHUNK = 1 << 20
"""The most that is sent to the host in one call, in bytes."""


class _Raw(io.RawIOBase):
    def __init__(self, host: Host, number: int) -> None:
        self._host, self._number = host, number

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        sent = bytes(memoryview(content)[:_CHUNK])
        self._host.artifacts.write(self._number, sent)
        return len(sent)


class ArtifactWriter(io.BufferedWriter):
    """A file that is being written. It is kept if it is closed, and not if a `with` block raises an error."""

    def __init__(self, host: Host, number: int) -> None:
        super().__init__(_Raw(host, number), _CHUNK)
        self._end: Any = lambda: host.artifacts.close(number)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._end()

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            return self.close()
        self._end = lambda: None
        # It is not kept, so what cannot be written does not matter, and the error of the block is the one to see.
        with contextlib.suppress(Exception):
            self.close()

    def __del__(self) -> None:
        """A file that was forgotten is not kept."""


class _RawReader(io.RawIOBase):
    def __init__(self, host: Host, number: int) -> None:
        self._host, self._number = host, number

    def readable(self) -> bool:
        return True

    def readinto(self, to: Any) -> int:
        content = self._host.artifacts.read(self._number, min(len(to), _CHUNK))
        to[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._host.artifacts.close(self._number)

    def __del__(self) -> None:
        """A file that was forgotten is closed with the attempt."""


class Artifacts:
    """The files that the job produces and reads, if the manifest has `artifact_mib`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def create(self, name: str, content_type: str | None = None) -> ArtifactWriter:
        """Begins a file, to which bytes are written."""
        kind = None if content_type is None else given.text(content_type)
        return ArtifactWriter(self._host, self._host.artifacts.create(given.name(name, "the name of an artifact"), kind))

    def open(self, name: str) -> io.BufferedReader:
        """Opens a file that the job was enqueued with, by its name in `files`, to read bytes."""
        number = self._host.artifacts.open(given.name(name, "the name of a file"))
        return io.BufferedReader(_RawReader(self._host, number), _CHUNK)
