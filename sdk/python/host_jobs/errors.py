"""How a handler ends without a result: exceptions, and what becomes of them."""

from __future__ import annotations

import os
import traceback
from typing import Any

from . import given, interface
from .interface import Category, HttpError, JobsError, SqlError

_SDK = os.path.dirname(__file__)

_CATEGORIES = {
    "refused": Category.USER_CODE,
    "not-granted": Category.CONFIGURATION,
    "invalid-request": Category.USER_CODE,
    "unreachable": Category.INFRASTRUCTURE,
    "timed-out": Category.INFRASTRUCTURE,
    "too-large": Category.CONFIGURATION,
    "limit-reached": Category.CONFIGURATION,
    "unavailable": Category.INFRASTRUCTURE,
}


class JobError(Exception):
    """The attempt failed. `retryable` says whether another attempt may help; without it the category decides."""

    def __init__(
        self,
        message: object,
        *,
        kind: object = "error",
        category: Category | str = Category.USER_CODE,
        code: object = None,
        details: Any = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(given.text(message))
        self.kind = "error" if kind is None else given.text(kind)
        self.category = category if isinstance(category, Category) else _category(category)
        self.code = None if code is None else given.text(code)
        self.details = details
        self.retryable = retryable


def _category(spelled: object) -> Category:
    """Returns the category of a name, however it is spelled: `DATA_QUALITY`, `data_quality`, `data-quality`."""
    try:
        return Category[given.text(spelled).upper().replace("-", "_")]
    except KeyError:
        names = ", ".join(Category.__members__)
        raise ValueError(f"category: expected one of {names}, got {given.text(spelled)}") from None


class Retry(Exception):
    """The handler asks for another attempt after the job's backoff, and not before `after` seconds."""

    def __init__(self, reason: object, *, after: float | None = None) -> None:
        super().__init__(given.text(reason))
        self.after = after
        self.after_ms = None if after is None else given.milliseconds(after, "after")


class Cancelled(Exception):
    """The handler stopped on request, with its partial results."""

    def __init__(self, partial: Any = None) -> None:
        super().__init__("the job was asked to stop")
        self.partial = partial


def failure(error: BaseException) -> interface.Failure:
    """Returns what an exception tells the host."""
    if isinstance(error, Retry):
        return interface.FailureRetry(interface.RetryRequest(_message(error), error.after_ms))
    if isinstance(error, Cancelled):
        return interface.FailureCancelled(given.details(error.partial))
    if not isinstance(error, JobError):
        error = _job_error(error)
    # The author may have changed them since they were checked.
    category = error.category if isinstance(error.category, Category) else Category.USER_CODE
    return interface.FailureError(
        interface.JobError(
            category,
            given.cut(given.text(error.kind), given.NAME_MAX),
            _message(error),
            None if error.code is None else given.cut(given.text(error.code), given.NAME_MAX),
            given.details(error.details),
            stack(error),
            None if error.retryable is None else error.retryable is not False,
        )
    )


def _message(error: BaseException) -> str:
    return given.cut(given.text(error), given.MESSAGE_MAX)


def _job_error(error: BaseException) -> JobError:
    kind, message, category = type(error).__name__, given.text(error), Category.USER_CODE
    code = None
    if isinstance(error, (HttpError, JobsError, SqlError)):
        what = "http" if isinstance(error, HttpError) else "store" if isinstance(error, JobsError) else "sql"
        code = getattr(error, "code", None)
        kind, message = f"{what}_{error.kind.name.lower()}", error.message
        category = _CATEGORIES[error.kind.value]
    described = JobError(message, kind=kind, category=category, code=code)
    described.__cause__ = error
    return described


def stack(error: BaseException) -> str | None:
    """Returns the traceback of an exception, without the frames of this package that called the handler."""
    thrown = error if error.__traceback__ else error.__cause__ or error
    frames = thrown.__traceback__
    while frames and os.path.dirname(frames.tb_frame.f_code.co_filename) == _SDK:
        frames = frames.tb_next
    if frames is None:
        return None  # Nothing of the handler was running.
    try:
        lines = traceback.format_exception(type(thrown), thrown, frames)
    except Exception:
        lines = [*traceback.format_tb(frames), type(thrown).__name__]  # A part of it cannot be described.
    return given.cut(given.text("".join(lines).rstrip()), given.STACK_MAX)
