"""Finds and runs the tests of a project one by one: those of `unittest`, and plain functions.

A component has them as the handler `host:tests`: without params it lists them, with the number of a test it runs that one. The
machine's Python runs them all as `python3 -m host_bundle.tests`."""

import errno
import importlib
import inspect
import os
import re
import sys
import traceback
import unittest
from typing import Callable

from . import library

HANDLER = "host:tests"
_HIDDEN = ("target", "node_modules", "venv", "__pycache__", "host_jobs")
_LONGEST = 16_000
"""The most characters of what a test says."""
_NOT_OURS = re.compile(r'^  File "[^"\n]*(?:host_jobs|host_bundle)/.*\n(?:    .*\n)*', re.M)
"""The frames of a traceback that are no author's."""
__unittest = True
"""Our frames are no part of a traceback."""

Test = tuple[str, Callable[[], dict]]


def find(project: str) -> list[Test]:
    """Imports the modules with tests and returns these."""
    return [test for name in sorted(_modules(project)) for test in _tests_of(name)]


def register(project: str) -> None:
    """Makes the tests a handler of the component."""
    from host_jobs import handler

    found = find(project)

    @handler(HANDLER)
    def run(_ctx, params):
        return [name for name, _ in found] if params is None else found[params][1]()


def _modules(project: str) -> list[str]:
    names = []
    for folder, folders, files in os.walk(project):
        folders[:] = [it for it in folders if it not in _HIDDEN and it[0] != "."]
        below = os.path.relpath(folder, project)
        package = "" if below == "." else below.replace(os.sep, ".") + "."
        found = [file for file in files if library.is_test_module(file)]
        names += [package + file.removesuffix(".py") for file in found]
        if found and package and "__init__.py" not in files:
            sys.path.append(folder)  # They may import what is beside them.
    return names


def _tests_of(name: str) -> list[Test]:
    try:
        module = importlib.import_module(name)
        cases = list(_cases(unittest.TestLoader().loadTestsFromModule(module)))
    except unittest.SkipTest as skipped:
        return [_ended(name, "skipped", str(skipped))]
    except Exception as error:
        _explain(error)
        frames = error.__traceback__
        while frames and (frames.tb_frame.f_globals is globals() or "importlib" in frames.tb_frame.f_code.co_filename):
            frames = frames.tb_next
        return [_ended(name, "failed", "".join(traceback.format_exception(type(error), error, frames)))]
    tests = [(case.id(), lambda case=case: _run(case)) for case in cases]
    own = [it for it in vars(module).values() if getattr(it, "__module__", None) == name]
    return tests + [test for it in own for test in _plain(f"{name}.{getattr(it, '__name__', '')}", it)]


def _cases(suite):
    for it in suite:
        if isinstance(it, unittest.TestSuite):
            yield from _cases(it)
        else:
            yield it


def _plain(name: str, it) -> list[Test]:
    """Returns a function that is a test, or why a class is none."""
    own = it.__name__ if inspect.isfunction(it) or inspect.isclass(it) else ""
    if inspect.isclass(it) and own.startswith("Test") and not issubclass(it, unittest.TestCase):
        if not any(method.startswith("test") for method in vars(it)):
            return []
        return [_ended(name, "failed", f"{own} is no unittest.TestCase: derive it from that, or write plain functions")]
    if not inspect.isfunction(it) or not own.startswith("test"):
        return []
    needed = [each.name for each in inspect.signature(it).parameters.values() if each.default is each.empty and each.kind < each.VAR_POSITIONAL]
    if needed:
        refused = f"{own} has the parameter {needed[0]}: fixtures are not supported, call a function or use unittest.TestCase"
        return [_ended(name, "failed", refused)]
    if inspect.iscoroutinefunction(it):
        import asyncio

        return [(name, lambda: _run(unittest.FunctionTestCase(lambda: asyncio.run(it()))))]
    return [(name, lambda: _run(unittest.FunctionTestCase(it)))]


def _ended(name: str, outcome: str, message: str) -> Test:
    return name, lambda: _end(outcome, message)


def _end(outcome: str, message: str) -> dict:
    message = re.sub(r'File "/\d+/', 'File "', message.strip())  # Each folder of modules has a number in a component.
    message = _NOT_OURS.sub("", message)
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST // 2]}\n…\n{message[-_LONGEST // 2 :]}"
    return {"outcome": outcome, "message": message}


class _Result(unittest.TestResult):
    def addError(self, test, err) -> None:
        _explain(err[1])
        super().addError(test, err)

    def addSubTest(self, test, subtest, err) -> None:
        if err:
            _explain(err[1])
        super().addSubTest(test, subtest, err)


def _run(case) -> dict:
    """Runs one test, with what its class and its module set up."""
    result = _Result()
    unittest.TestSuite([case]).run(result)
    said = [text if it is case else f"{it}:\n{text}" for it, text in (*result.errors, *result.failures)]
    if said:
        return _end("failed", "\n".join(said))
    if result.unexpectedSuccesses:
        return _end("failed", "it passes, but is marked as an expected failure")
    if result.skipped:
        return _end("skipped", result.skipped[0][1])
    return {"outcome": "passed"}


def _explain(error: BaseException) -> None:
    """Adds to an error what is different in a component."""
    if sys.platform != "wasi":
        return
    if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] in sys.stdlib_module_names:
        error.add_note(f"A component does not have the module {error.name}.")
    if isinstance(error, FileNotFoundError) and error.errno == errno.ENOENT:
        error.add_note("A handler reads only files that the component carries: `files` in pyproject.toml names them.")


def main() -> int:
    """Runs all tests on this machine."""
    ended = []
    for name, run in find(os.getcwd()):
        end = run()
        ended.append(end["outcome"])
        said = f": {end['message']}" if end["outcome"] == "skipped" else ""
        print(f"{end['outcome']}: {name}{said}", flush=True)
        if end["outcome"] == "failed":
            print("".join(f"  {line}\n" for line in end["message"].splitlines()), flush=True)
    print(", ".join(f"{ended.count(it)} {it}" for it in ("passed", "failed", "skipped")))
    return int("failed" in ended)


if __name__ == "__main__":
    sys.exit(main())
