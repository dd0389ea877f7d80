"""Handlers of `host` in Python.

Register functions with `@handler`, and let the module that is made into a component have `Handler`:

    from host_jobs import Handler, handler

An exception ends the attempt as failed, with its message and its traceback. `JobError`, `Retry` and
`Cancelled` say more precisely how it ends.
"""

import json
import traceback

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import control, http, log
from wit_world.imports.types import (
    Category,
    Failure_Cancelled,
    Failure_Error,
    Failure_Retry,
    HandlerInfo,
    RetryRequest,
)
from wit_world.imports.types import JobError as Failed

_handlers = {}

_CATEGORIES = {
    http.ErrorKind.NOT_GRANTED: Category.CONFIGURATION,
    http.ErrorKind.INVALID_REQUEST: Category.USER_CODE,
    http.ErrorKind.UNREACHABLE: Category.INFRASTRUCTURE,
    http.ErrorKind.TIMED_OUT: Category.INFRASTRUCTURE,
    http.ErrorKind.TOO_LARGE: Category.CONFIGURATION,
    http.ErrorKind.LIMIT_REACHED: Category.CONFIGURATION,
    http.ErrorKind.UNAVAILABLE: Category.INFRASTRUCTURE,
}


class JobError(Exception):
    """The attempt failed. `retryable` tells whether another attempt may help; the category decides if it is None."""

    def __init__(self, message, *, kind="JobError", category=Category.USER_CODE, code=None, details=None, retryable=None):
        super().__init__(message)
        self.kind, self.category, self.code = kind, category, code
        self.details, self.retryable = details, retryable


class Retry(Exception):
    """The handler asks for another attempt, `after_ms` milliseconds from now."""

    def __init__(self, reason, after_ms=None):
        super().__init__(reason)
        self.after_ms = after_ms


class Cancelled(Exception):
    """The handler stopped on request, with its partial results."""

    def __init__(self, partial=None):
        super().__init__("cancelled")
        self.partial = partial


def handler(name, *, params_schema=None, result_schema=None):
    """Makes a function a handler. It gets the params and the context, and returns the result."""

    def register(function):
        info = HandlerInfo(name, function.__doc__, _json(params_schema), _json(result_schema))
        _handlers[name] = (info, function)
        return function

    return register


def info(message, **fields):
    """Writes a line to the log of the job."""
    _log(log.Level.INFO, message, fields)


def warn(message, **fields):
    """Writes a warning to the log of the job."""
    _log(log.Level.WARN, message, fields)


def progress(percent, message):
    """Reports progress: 0 to 100 percent, or None if that is not known, and what the job is doing."""
    control.progress(percent, str(message))


def sleep(seconds):
    """Sleeps this many seconds without using CPU."""
    control.sleep_ms(round(seconds * 1000))


def remaining():
    """Returns how many seconds of the time limit are left, None if there is no limit."""
    ms = control.remaining_ms()
    return None if ms is None else ms / 1000


def check_cancelled(partial=None):
    """Ends the attempt if the job was asked to stop."""
    if control.cancelled() is not None:
        raise Cancelled(partial)


def fetch(url, *, method="GET", headers=(), body=b"", timeout=None):
    """Sends a request to an HTTP server that the manifest names, and returns its response: `status`, `headers`
    and `body`. Raises `JobError` if there is none. `timeout` is in seconds."""
    ms = None if timeout is None else round(timeout * 1000)
    try:
        return http.send(http.Request(method, url, list(headers), body, ms))
    except Err as error:
        kind = error.value.kind
        raise JobError(error.value.message, kind=f"http_{kind.name.lower()}", category=_CATEGORIES[kind]) from None


class Handler(exports.Handler):
    """The component's exports."""

    def describe(self):
        return [info for info, _ in _handlers.values()]

    def handle(self, ctx, params):
        if ctx.function not in _handlers:
            raise Err(_failed("handler_not_found", f"no handler is named {ctx.function}", Category.CONFIGURATION))
        _, function = _handlers[ctx.function]
        try:
            return _json(function(json.loads(params), ctx))
        except Retry as retry:
            raise Err(Failure_Retry(RetryRequest(str(retry), retry.after_ms)))
        except Cancelled as cancelled:
            raise Err(Failure_Cancelled(_json(cancelled.partial)))
        except JobError as error:
            raise Err(
                Failure_Error(
                    Failed(error.category, error.kind, str(error), error.code, _json(error.details), _stack(error), error.retryable)
                )
            )
        except Exception as error:
            raise Err(_failed(type(error).__name__, str(error), Category.USER_CODE, _stack(error)))


def _failed(kind, message, category, stack=None):
    return Failure_Error(Failed(category, kind, message, None, None, stack, None))


def _log(level, message, fields):
    log.write(level, message, [(key, str(value)) for key, value in fields.items()])


def _stack(error):
    return "".join(traceback.format_exception(error)).rstrip()


def _json(value):
    return None if value is None else json.dumps(value, ensure_ascii=False)
