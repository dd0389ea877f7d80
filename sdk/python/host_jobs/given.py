"""Values that authors hand to the SDK: each becomes what the interface takes, or an error at the author's line.

What describes a failure is never refused: it becomes text."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from .values import plain, to_json

NAME_MAX, MESSAGE_MAX, STACK_MAX, DETAILS_MAX = 200, 8_000, 16_000, 60_000
"""The most characters of a kind or code, a message, a stack and details. The host cuts what is longer."""
_MS_MAX = 0xFFFFFFFF
_DEPTH_MAX, _ITEMS_MAX = 16, 1_000


def text(value: object) -> str:
    """Returns a value as text, whatever it is. Halves of characters are replaced."""
    try:
        given = str(value)
        if not given.isascii():
            given = given.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return str.__str__(given)
    except Exception as error:
        return f"<{type(value).__name__} without text: {type(error).__name__}>"


def cut(given: str, most: int) -> str:
    """Returns a text without its middle if it is long."""
    if len(given) <= most:
        return given
    half = most // 2
    return f"{given[:half]}\n… {len(given) - 2 * half} characters left out …\n{given[-half:]}"


def details(value: Any) -> str | None:
    """Returns any value as JSON: what has none becomes text."""
    if value is None:
        return None
    try:
        given = to_json(value)
    except Exception:
        given = to_json(_described(value, 0, set()))
    return given if len(given) <= DETAILS_MAX else to_json(cut(given, DETAILS_MAX // 2))


def field(value: Any) -> str:
    """Returns any value as JSON for a field of the log: what has none becomes text."""
    return details(value) or "null"


def _described(value: Any, depth: int, above: set[int]) -> Any:
    try:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)) and type(value) in (int, float):
            return value if math.isfinite(value) and abs(value) < 1e300 else text(value)
        if isinstance(value, str):
            return text(value)
        if id(value) in above or depth >= _DEPTH_MAX:
            return "…"
        above = above | {id(value)}
        if isinstance(value, Mapping):
            pairs = list(value.items())[:_ITEMS_MAX]
            return {text(key): _described(item, depth + 1, above) for key, item in pairs}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_described(item, depth + 1, above) for item in list(value)[:_ITEMS_MAX]]
        known = plain(value)
    except Exception:
        return text(value)
    return _described(known, depth + 1, above)


def name(value: Any, what: str) -> str:
    """Returns a key or a name, which must be text."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text, not {type(value).__name__}")
    if text(value) != value:
        raise ValueError(f"{what} has half of a character: {value!a:.80}")
    return str.__str__(value)


def number(value: Any, what: str) -> float:
    """Returns a number, which must not be NaN."""
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{what} must be a number, not {type(value).__name__}")
    try:
        given = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:
        raise TypeError(f"{what} must be a number, not {type(value).__name__}") from None
    if math.isnan(given):
        raise ValueError(f"{what} is not a number (NaN)")
    return given


def milliseconds(seconds: Any, what: str, least: int | None = None) -> int:
    """Returns a time in milliseconds. A negative time is 0, or refused if the time must have at least `least`."""
    ms = number(seconds, what) * 1000
    if least is not None and ms < least:
        raise ValueError(f"{what} must be at least {least / 1000:g} seconds, not {seconds}")
    return _MS_MAX if ms >= _MS_MAX else math.ceil(max(0.0, ms))


def percent(value: Any) -> float | None:
    """Returns progress from 0 to 100."""
    return None if value is None else max(0.0, min(100.0, number(value, "percent")))


def raw(value: Any, what: str) -> bytes:
    """Returns bytes."""
    if isinstance(value, str):
        return name(value, what).encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what} must be bytes or a text, not {type(value).__name__}")


def body(value: Any) -> tuple[bytes, str | None]:
    """Returns the body of a request and the type of its contents if the value has one: a form."""
    if value is None:
        return b"", None
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return raw(value, "data"), None
    if isinstance(value, Mapping) or (isinstance(value, (list, tuple)) and all(isinstance(it, (list, tuple)) for it in value)):
        return query(value, "data").encode(), "application/x-www-form-urlencoded"
    if callable(getattr(value, "read", None)):
        return raw(value.read(), "data"), None
    if isinstance(value, Iterable):
        return b"".join(raw(part, "a part of data") for part in value), None
    raise TypeError(f"data must be bytes, a text, a mapping, a file or an iterator, not {type(value).__name__}")


def query(value: Any, what: str) -> str:
    """Returns pairs as a query or a form. Values that are None are left out."""
    if isinstance(value, (str, bytes, bytearray)):
        return raw(value, what).decode(errors="replace")
    pairs = list(value.items() if isinstance(value, Mapping) else value)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise TypeError(f"{what} must be a mapping or pairs of name and value")
    return urlencode([(_word(key), _words(item)) for key, item in pairs if item is not None], doseq=True)


def _words(value: Any) -> Any:
    return [_word(item) for item in value] if isinstance(value, (list, tuple, set, frozenset)) else _word(value)


def _word(value: Any) -> Any:
    return bytes(value) if isinstance(value, (bytes, bytearray)) else text(value)


def headers(value: Any) -> list[tuple[str, str]]:
    """Returns headers as pairs of texts. Values that are None are left out."""
    if value is None:
        return []
    pairs = list(value.items() if isinstance(value, Mapping) else value)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise TypeError("headers must be a mapping or pairs of name and value")
    return [(_header(key), _header(item)) for key, item in pairs if item is not None]


def _header(value: Any) -> str:
    return bytes(value).decode("latin-1") if isinstance(value, (bytes, bytearray)) else text(value)


def read_json(given: str | bytes) -> Any:
    """Reads JSON, in which NaN and Infinity are errors."""
    return json.loads(given, parse_constant=_no_constant)


def _no_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
