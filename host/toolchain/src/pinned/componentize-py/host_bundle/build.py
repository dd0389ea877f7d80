"""What happens after the imports: files are kept, what will be missing is reported, memory that is free is filled with zeros."""

import fnmatch
import importlib.util
import itertools
import json
import linecache
import marshal
import os
import sys
import traceback
from typing import Container, Iterable

from . import files, library, memory, platform, scan

_LARGEST = 16 << 20
"""The most bytes that the files of a component may have together, compressed."""
_ZONES = "tzdata"
_OF_TESTS = 8 << 20
"""The most bytes of other files that tests may read, compressed."""


def finish(
    modules: dict, project: str, report: str, patterns: list[str], packages: list[str], zones: str, has_tests: bool
) -> None:
    """Reports what the imports have shown, and keeps the files of the component."""
    found = {"warnings": [], "errors": []} if has_tests else scan.examine(project, packages)
    archive = files.Archive()
    *shared, locked = packages
    shared_files = itertools.chain.from_iterable(map(library.files_below, shared))
    named = _add(archive, itertools.chain(_own(project, patterns), shared_files), () if has_tests else _tests_below(project))
    found_by_name: set[str] = set()
    named |= _add_locked(archive, locked, os.path.join(report, "lib", "packed.bin"), found_by_name)
    if "zoneinfo" in named or "zoneinfo" in sys.modules:
        _add(archive, library.files_below(os.path.join(zones, _ZONES)))
    # A package that looks for a module may load it once more.
    imported = {path for path in _imported() if path in modules and library.package(path) not in found_by_name}
    for path in library.reachable(modules, named) - imported:
        archive.add(path, b"")  # An import asks for the source, but reads what is compiled.
        archive.add_packed(importlib.util.cache_from_source(path), *modules[path][:2])
    found["packed"] = archive.size
    if archive.size > _LARGEST:
        found["errors"].append(
            f"the files that the component carries have {archive.size >> 20} MiB, compressed; at most {_LARGEST >> 20} are allowed"
        )
    with open(os.path.join(report, "report.json"), "w") as file:
        json.dump(found, file)
    if has_tests:
        files.keep_for_tests(_add_for_tests(archive, project))
    modules.clear()
    archive.seal()
    _warm()
    linecache.clearcache()
    platform.begin()


def _imported() -> set[str]:
    return {str(getattr(module, "__file__", "")) for module in list(sys.modules.values())}


def _tests_below(project: str) -> set[str]:
    """Returns the modules of tests that no handler has imported."""
    paths = (path for path, _ in library.files_below(project))
    return {path for path in paths if library.is_of_tests(os.path.relpath(path, project))} - _imported()


def _add_for_tests(archive: files.Archive, project: str) -> set[str]:
    """Adds the other files of the project, the smallest first, and returns their paths."""
    added: set[str] = set()
    end = archive.size + _OF_TESTS
    for path, content in sorted(library.files_below(project), key=lambda it: len(it[1])):
        if not archive.has(path):
            archive.add(path, content)
            added.add(path)
        if archive.size > end:
            break
    return added


def _add(archive: files.Archive, contents: Iterable[tuple[str, bytes]], unused: Container[str] = ()) -> set[str]:
    """Adds files. Returns the packages that their modules name, without those of `unused` modules."""
    named = set()
    for path, content in contents:
        archive.add(path, content)
        if path.endswith(".py") and path not in unused:
            try:
                named |= library.names(content)
            except (SyntaxError, ValueError):
                continue  # Its import says why.
    return named


def _add_locked(archive: files.Archive, root: str, packed: str, found_by_name: set[str]) -> set[str]:
    """Adds the files of the locked packages, which were compressed when they were installed."""
    if not os.path.exists(packed):
        return set()
    with open(packed, "rb") as file:
        contents, named, by_name = marshal.load(file)
    found_by_name.update(by_name)
    for path, (content, length) in contents.items():
        archive.add_packed(os.path.join(root, path), content, length)
    return set(named)


def _own(project: str, patterns: list[str]) -> Iterable[tuple[str, bytes]]:
    """Returns the project's modules, the files of its packages, and those that it names."""
    for path, content in library.files_below(project):
        name = os.path.relpath(path, project)
        folders = [os.path.join(project, *name.split("/")[: at + 1]) for at in range(name.count("/"))]
        in_package = any(os.path.exists(os.path.join(folder, "__init__.py")) for folder in folders)
        if name.endswith(".py") or in_package or any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            yield path, content


def _warm() -> None:
    """Imports what Python imports when it describes an exception and reads a time."""
    import encodings.ascii  # noqa: F401
    import encodings.latin_1  # noqa: F401

    if "datetime" in sys.modules:
        import _strptime  # noqa: F401
    try:
        {}["a"]
    except KeyError as error:
        traceback.format_exception(error)
