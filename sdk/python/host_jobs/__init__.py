"""Handlers of `host` in Python. See the README of this package."""

from .artifacts import Artifacts, ArtifactWriter
from .ctx import Ctx, NewJob, State
from .errors import Cancelled, JobError, Retry
from .handlers import handler
from .http import Response
from .interface import (
    Category,
    HttpError,
    HttpErrorKind,
    HttpRequest,
    JobsError,
    JobsErrorKind,
    LogLevel,
    SqlError,
    SqlErrorKind,
)
from .mock import MockHost
from .sql import Rows, Sql, Transaction

__all__ = [
    "ArtifactWriter",
    "Artifacts",
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
    "Rows",
    "Sql",
    "SqlError",
    "SqlErrorKind",
    "State",
    "Transaction",
    "handler",
]
