"""Handlers of `host` in Python. See the README of this package."""

from .ctx import Ctx, NewJob, State
from .errors import Cancelled, JobError, Retry
from .handlers import handler
from .http import Response
from .interface import Category, HttpError, HttpErrorKind, HttpRequest, JobsError, JobsErrorKind, LogLevel
from .mock import MockHost

__all__ = [
    "Cancelled",
    "Category",
    "Ctx",
    "HttpError",
    "HttpErrorKind",
    "HttpRequest",
    "JobError",
    "JobsError",
    "JobsErrorKind",
    "LogLevel",
    "MockHost",
    "NewJob",
    "Response",
    "Retry",
    "State",
    "handler",
]
