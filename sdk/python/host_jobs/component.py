"""The exports of a component and its imports. Only a component has the modules that this one imports."""

from __future__ import annotations

import re
from typing import Any

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import artifacts, control, http, jobs, limits, log, secrets, sql, state, types

from . import handlers, interface
from .errors import failure
from .interface import HttpError, HttpErrorKind, JobsError, JobsErrorKind, SqlError, SqlErrorKind


class _Log:
    @staticmethod
    def write(level: interface.LogLevel, message: str, fields: list[tuple[str, str]]) -> None:
        log.write(log.Level[level.name], message, fields)

    @staticmethod
    def write_json(level: interface.LogLevel, message: str, fields: list[tuple[str, str]]) -> None:
        log.write_json(log.Level[level.name], message, fields)


class _Http:
    @staticmethod
    def send(request: interface.HttpRequest) -> interface.HttpResponse:
        try:
            answer = http.send(http.Request(**vars(request)))
        except Err as error:
            kind = HttpErrorKind[error.value.kind.name]
            raise HttpError(kind, error.value.message) from None
        return interface.HttpResponse(**vars(answer))


class _Store:
    """Functions of an interface whose errors are those of `jobs`."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Err as error:
                kind = JobsErrorKind[error.value.kind.name]
                raise JobsError(kind, error.value.message) from None

        return call


class _Sql:
    def __getattr__(self, name: str) -> Any:
        function = getattr(sql, name)

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Err as error:
                kind = SqlErrorKind[error.value.kind.name]
                raise SqlError(kind, error.value.code, error.value.message) from None

        return call


class _Imports:
    control, http, log = control, _Http, _Log
    sql = _Sql()
    artifacts, jobs, limits = _Store(artifacts), _Store(jobs), _Store(limits)
    secrets, state = _Store(secrets), _Store(state)


class Handler(exports.Handler):
    """The component's exports."""

    def describe(self) -> list[types.HandlerInfo]:
        return [types.HandlerInfo(**vars(info)) for info in handlers.describe()]

    def handle(self, ctx: types.Context, params: str) -> str | None:
        try:
            return handlers.call(interface.Context(**vars(ctx)), params, _Imports)
        except BaseException as error:
            raise Err(_failure(failure(error))) from None


def _failure(ended: interface.Failure) -> types.Failure:
    if isinstance(ended, interface.FailureRetry):
        return types.Failure_Retry(types.RetryRequest(**vars(ended.value)))
    if isinstance(ended, interface.FailureCancelled):
        return types.Failure_Cancelled(ended.value)
    error = ended.value
    category = types.Category[error.category.name]
    # Each folder of modules has a number in a component.
    stack = error.stack and re.sub(r'File "/\d+/', 'File "', error.stack)
    return types.Failure_Error(types.JobError(**{**vars(error), "category": category, "stack": stack}))
