"""Compiles the standard library for later builds. It is a component itself, because only the builder's Python can do it."""

from . import LIBRARY, library

library.make(f"/0/{LIBRARY}")


class Handler:
    """The exports that a component needs."""
