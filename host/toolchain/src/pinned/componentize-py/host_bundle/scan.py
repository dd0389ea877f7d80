"""Finds what will be missing when handlers run: modules that a component has not, and random numbers that are made too early."""

import ast
import importlib.util
import json
import os
import random
import sys
import traceback


def examine(project: str, packages: list[str]) -> dict[str, list[str]]:
    """Returns warnings and errors, each a sentence."""
    warnings = [*_missing(project, packages), *_early_numbers()]
    return {"warnings": sorted(set(warnings)), "errors": []}


def explain(error: ImportError, report: str) -> None:
    """Reports which packages that an import has passed need machine code."""
    listed = os.path.join(report, "lib", "machine-code.txt")
    if not os.path.exists(listed):
        return
    with open(listed) as file:
        without_code = set(file.read().split())
    passed = [frame.filename.split("/")[2] for frame in traceback.extract_tb(error.__traceback__) if frame.filename.count("/") > 2]
    needing = [name for name in dict.fromkeys([*passed, str(error.name).partition(".")[0]]) if name in without_code]
    if needing:
        errors = [f"{needing[-1]} needs machine code, which does not run in a component"]
        with open(os.path.join(report, "report.json"), "w") as file:
            json.dump({"warnings": [], "errors": errors}, file)


def _early_numbers() -> list[str]:
    """Finds generators that modules have made: each attempt would draw the same numbers from them."""
    own = {id(random._inst)} if hasattr(random, "_inst") else set()
    found = []
    for name, module in list(sys.modules.items()):
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if type(value) is random.Random and id(value) not in own and not name.startswith("random"):
                found.append(f"{name}.{key} is a random.Random() made at import: each attempt draws the same numbers from it")
    return found


class _Imports(ast.NodeVisitor):
    """Collects the modules that a module imports, without those whose absence it handles."""

    def __init__(self, package: str) -> None:
        self.package, self.names, self.depth = package, [], 0

    def visit_Try(self, node: ast.Try) -> None:
        caught = " ".join(ast.unparse(handler.type) if handler.type else "Exception" for handler in node.handlers)
        handles = any(it in caught for it in ("ImportError", "ModuleNotFoundError", "Exception", "AttributeError"))
        for child in (*(() if handles else node.body), *node.orelse * (not handles), *node.finalbody):
            self.visit(child)

    def visit_If(self, node: ast.If) -> None:
        pass  # Conditions ask for the type checker, the version, the system or another package.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        pass  # A module that is imported late may never be.

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Import(self, node: ast.Import) -> None:
        self.names.extend(alias.name for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self.package.split(".")
            parts = parts[: len(parts) - node.level + 1]
            base = ".".join([*parts, base] if base else parts)
        self.names.append(base)
        self.names.extend(f"{base}.{alias.name}" for alias in node.names)


def _missing(project: str, packages: list[str]) -> list[str]:
    """Follows imports from the modules of the project."""
    found, seen = [], set()
    left = [name for name, module in sys.modules.items() if _is_below(getattr(module, "__file__", None), [project])]
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        file = _file(name)
        if not file or not file.endswith(".py") or not _is_below(file, [project, *packages]):
            continue
        package = name if file.endswith("/__init__.py") else name.rpartition(".")[0]
        imports = _Imports(package)
        with open(file, "rb") as source:
            try:
                imports.visit(ast.parse(source.read()))
            except SyntaxError:
                continue
        for needed in imports.names:
            top = needed.partition(".")[0]
            if not _exists(top):
                what = "needs machine code that is left out" if top.startswith("_") else "is not in a component"
                found.append(f"{name} imports {top}, which {what}")
            left.append(needed)
    return found


def _is_below(file: str | None, folders: list[str]) -> bool:
    return bool(file) and any(file.startswith(folder + "/") for folder in folders)


def _file(name: str) -> str | None:
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__file__", None)
    parent = name.rpartition(".")[0]
    if parent and parent not in sys.modules:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return spec.origin if spec else None


def _exists(top: str) -> bool:
    if not top or top in sys.modules:
        return True
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False
