"""What a host call takes at most. What is larger is refused here, because the host would end the attempt for it; lines of the log
are cut, as the host does."""

from __future__ import annotations

from typing import TypeVar

from .interface import HttpError, HttpErrorKind, HttpRequest, JobsError, JobsErrorKind, SqlError, SqlErrorKind

_T = TypeVar("_T")

BODY_MAX = 4 << 20
"""The most bytes of a request's body."""
URL_MAX = 8 << 10
"""The most bytes of a request's URL."""
HEADERS_MAX, HEADERS_BYTES_MAX = 1_000, 64 << 10
"""The most headers of a request, and their bytes together."""
JOBS_MAX = 8 << 20
"""The most bytes of all jobs of one call, as JSON."""
VALUE_MAX = 1 << 20
"""The most bytes of a value of state."""
STATEMENT_MAX = 4 << 20
"""The most bytes of a statement with its parameters."""
NAME_MAX = 512
"""The most bytes of a key of state, and of the name of a space, a limit, a secret or a database."""
LINE_MAX = 16 << 10
"""The most bytes of a line of the log, and of each of its values."""
FIELDS_MAX = 64
"""The most fields of a line of the log."""
FIELD_NAME_MAX = LINE_MAX // FIELDS_MAX
"""The most bytes of the name of a field."""


def check_request(request: HttpRequest) -> HttpRequest:
    """Returns a request that is not too large."""
    in_url, in_body = size(request.url), len(request.body)
    in_headers = sum(size(name) + size(value) for name, value in request.headers)
    if in_url > URL_MAX:
        message = f"the URL has {in_url} bytes, more than {URL_MAX}"
    elif size(request.method) > NAME_MAX:
        message = "invalid name of a method"
    elif len(request.headers) > HEADERS_MAX or in_headers > HEADERS_BYTES_MAX:
        message = f"too many headers: at most {HEADERS_MAX} with {HEADERS_BYTES_MAX} bytes"
    elif in_body > BODY_MAX:
        message = f"the request's body has {in_body} bytes, more than {BODY_MAX}"
    else:
        return request
    raise HttpError(HttpErrorKind.INVALID_REQUEST, message)


def check_jobs(jobs: str) -> str:
    """Returns jobs that are not too large."""
    return _within(jobs, size(jobs), JOBS_MAX, "the jobs of one call")


def check_value(value: bytes) -> bytes:
    """Returns a value of state that is not too large."""
    return _within(value, len(value), VALUE_MAX, "a value of state")


def check_key(key: str) -> str:
    """Returns a key of state that is neither empty nor too long."""
    length = size(key)
    if not 1 <= length <= NAME_MAX:
        message = f"a key of state must have 1–{NAME_MAX} bytes, got {length}"
        raise JobsError(JobsErrorKind.INVALID_REQUEST, message)
    return key


def check_name(name: str, what: str) -> str:
    """Returns a name that is not too long."""
    return _within(name, size(name), NAME_MAX, what)


def check_statement(statement: str, params: str) -> tuple[str, str]:
    """Returns a statement and its parameters, which are not too large."""
    length = size(statement) + size(params)
    if length > STATEMENT_MAX:
        message = f"the statement and its parameters have {length} bytes, more than {STATEMENT_MAX}"
        raise SqlError(SqlErrorKind.TOO_LARGE, None, message)
    return statement, params


def cut(text: str, most: int = LINE_MAX) -> str:
    """Returns a text without its end if it is too long."""
    if len(text) * 4 <= most or size(text) <= most:
        return text
    written = text.encode()
    kept = written[:most].decode(errors="ignore")
    return f"{kept} … ({len(written) - size(kept)} more bytes)"


def size(text: str) -> int:
    """Returns how many bytes a text has."""
    return len(text) if text.isascii() else len(text.encode())


def _within(value: _T, length: int, most: int, what: str) -> _T:
    if length > most:
        raise JobsError(JobsErrorKind.INVALID_REQUEST, f"{what} may have at most {most} bytes, got {length}")
    return value
