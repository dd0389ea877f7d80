"""Fills memory that imports have freed with zeros: the snapshot leaves zeros out."""

import gc
import itertools
import sys
from typing import Iterable

_LARGE = (1 << 20, 1 << 18, 1 << 16, 1 << 14, 1 << 12)
_SMALL = (1 << 11, 1 << 10, *range(512, 32, -16))
_HEADER = sys.getsizeof(b"")
_BEYOND = 1 << 20
"""How far beyond the last object memory may be free."""


def clear(kept: Iterable[object]) -> None:
    """Takes memory that is free, in pieces of each size, and gives it back as zeros. `kept` is what the collector does not know."""
    gc.collect()
    end = max(map(id, itertools.chain(kept, gc.get_objects()))) + _BEYOND
    _fill(end, (*_LARGE, *_SMALL))
    _fill(end, _LARGE)  # What the first call has noted.
    gc.freeze()


def _fill(end: int, sizes: tuple[int, ...]) -> None:
    held = []
    for size in sizes:
        while id(piece := bytes(size - _HEADER)) < end:
            held.append(piece)
