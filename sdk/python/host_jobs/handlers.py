"""The handlers of a component: functions with the decorator `handler`."""

from __future__ import annotations

import inspect
import typing
from typing import Any, Callable, TypeVar

from . import given, network
from .ctx import Ctx
from .errors import JobError
from .interface import Category, Context, HandlerInfo, Host
from .schemas import schema
from .values import convert, to_json

F = TypeVar("F", bound=Callable[..., Any])

_handlers: dict[str, tuple[HandlerInfo, Callable[..., Any], Any]] = {}


def handler(name: str) -> Callable[[F], F]:
    """Makes a function a handler of this name: `def sum(ctx: Ctx, params: Params) -> Total`. The annotations of params
    and result become their JSON Schemas: the host checks params before it accepts a job. The docstring is what `host
    handler ls` shows."""

    def register(function: F) -> F:
        if len(inspect.signature(function).parameters) != 2:
            raise TypeError(f"the handler {name} takes two arguments: ctx and params")
        second = list(inspect.signature(function).parameters)[1]
        hints = typing.get_type_hints(function, include_extras=True)
        params = hints.get(second, Any)
        schemas = [_schema(name, hints, it) for it in (second, "return")]
        if inspect.iscoroutinefunction(function):
            import asyncio  # noqa: F401 (it is in the snapshot then)
        _handlers[name] = (HandlerInfo(name, inspect.getdoc(function), *schemas), function, params)
        return function

    return register


def _schema(name: str, hints: dict[str, Any], of: str) -> str | None:
    if of not in hints:
        return None
    try:
        return to_json(schema(hints[of]))
    except TypeError as error:
        raise TypeError(f"the handler {name}: {of}: {error}") from error


def finished(result: Any) -> Any:
    """Returns what a handler returns; of an `async` function, what it returns in the end."""
    if not inspect.iscoroutine(result):
        return result
    import asyncio

    return asyncio.run(result)


def describe() -> list[HandlerInfo]:
    """Lists the handlers."""
    return [info for info, _, _ in _handlers.values()]


def call(job: Context, params: str, host: Host) -> str:
    """Executes one attempt: calls the handler that the job names with its params, and returns its result as JSON."""
    if job.function not in _handlers:
        message = f"this component has no handler named {job.function}"
        raise JobError(message, kind="handler_not_found", category=Category.CONFIGURATION)
    _, function, annotation = _handlers[job.function]
    try:
        value = convert(annotation, given.read_json(params))
    except (ValueError, RecursionError) as error:
        message = f"the params do not match the handler's type: {error}"
        raise JobError(message, kind="invalid_params", category=Category.DATA_QUALITY) from None
    with network.use(host):
        result = finished(function(Ctx(job, host), value))
    try:
        return to_json(result)
    except Exception as error:
        message = f"cannot write the result as JSON: {error}"
        raise JobError(message, kind="invalid_result", retryable=False) from None
