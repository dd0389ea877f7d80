"""How a handler ends without a result: exceptions, and what becomes of them."""

from __future__ import annotations

import os
import traceback
from typing import Any

from . import interface
from .interface import Category, HttpError, JobsError
from .values import to_json

_SDK = os.path.dirname(__file__)

_CATEGORIES = {
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
        kind: str = "error",
        category: Category | str = Category.USER_CODE,
        code: str | None = None,
        details: Any = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(str(message))
        self.kind = kind
        self.category = category if isinstance(category, Category) else _category(category)
        self.code = code
        self.details = details
        self.retryable = retryable


def _category(spelled: str) -> Category:
    """Returns the category of a name, however it is spelled: `DATA_QUALITY`, `data_quality`, `data-quality`."""
    try:
        return Category[spelled.upper().replace("-", "_")]
    except KeyError:
        names = ", ".join(Category.__members__)
        raise ValueError(f"category: expected one of {names}, got {spelled}") from None


class Retry(Exception):
    """The handler asks for another attempt after the job's backoff, and not before `after` seconds."""

    def __init__(self, reason: object, *, after: float | None = None) -> None:
        super().__init__(str(reason))
        self.after = after


class Cancelled(Exception):
    """The handler stopped on request, with its partial results."""

    def __init__(self, partial: Any = None) -> None:
        super().__init__("the job was asked to stop")
        self.partial = partial


def failure(error: BaseException) -> interface.Failure:
    """Returns what an exception tells the host."""
    if isinstance(error, Retry):
        after_ms = None if error.after is None else round(error.after * 1000)
        return interface.FailureRetry(interface.RetryRequest(str(error), after_ms))
    if isinstance(error, Cancelled):
        return interface.FailureCancelled(_optional(error.partial))
    if not isinstance(error, JobError):
        error = _job_error(error)
    return interface.FailureError(
        interface.JobError(
            error.category,
            error.kind,
            str(error),
            error.code,
            _optional(error.details),
            stack(error),
            error.retryable,
        )
    )


def _job_error(error: BaseException) -> JobError:
    kind, message, category = type(error).__name__, str(error), Category.USER_CODE
    if isinstance(error, (HttpError, JobsError)):
        what = "http" if isinstance(error, HttpError) else "store"
        kind, message = f"{what}_{error.kind.name.lower()}", error.message
        category = _CATEGORIES[error.kind.value]
    described = JobError(message, kind=kind, category=category)
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
    return "".join(traceback.format_exception(type(thrown), thrown, frames)).rstrip()


def _optional(value: Any) -> str | None:
    return None if value is None else to_json(value)
