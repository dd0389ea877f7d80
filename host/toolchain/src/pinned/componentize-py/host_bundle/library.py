"""The standard library, compiled once for all builds: without docstrings, compressed, with what each module imports."""

import ast
import importlib.util
import marshal
import os
import re
import sys
import zlib
from typing import Container, Iterable

_FOLDER = "/python"
_LEFT_OUT = {
    "__hello__", "__phello__", "_aix_support", "_android_support", "_apple_support", "_ios_support", "_osx_support", "_pydatetime",
    "_pydecimal", "_pyio", "_pyrepl", "_sysconfigdata__wasi_wasm32-wasi", "antigravity", "bdb", "compileall", "config-3.14-wasm32-wasi",
    "ctypes", "curses", "doctest", "ensurepip", "ftplib", "idlelib", "imaplib", "lib", "modulefinder", "multiprocessing",
    "nturl2path", "pdb", "pty", "py_compile", "pydoc", "pydoc_data", "rlcompleter", "site-packages", "socketserver",
    "tabnanny", "test", "this", "tkinter", "trace", "tty", "turtle", "turtledemo", "venv", "webbrowser", "wsgiref", "zipapp",
}  # fmt: skip
"""What needs a screen, a compiler, a server, other processes or another system, and tests."""
_ALWAYS = ("encodings", "_strptime", "_pylong", "stringprep", "importlib", "traceback", "linecache", "tokenize")
"""What Python imports by itself."""
_HIDDEN = ("target", "node_modules", "venv", "__pycache__")
_MACHINE_CODE = (".pyc", ".so", ".pyd", ".dylib")

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9.]{1,60}")

Module = tuple[bytes, int, list[str]]
"""A compressed module, its length, and the names of what it imports."""


def make(file: str) -> None:
    """Compiles the standard library into a file."""
    modules: dict[str, Module] = {}
    for path, source in files_below(_FOLDER, _LEFT_OUT):
        if path.endswith(".py"):
            code = compiled(source, path, optimize=2)
            modules[path] = (pack(code), len(code), sorted(names(source) & sys.stdlib_module_names))
    # Another build may do the same.
    beside = f"{file}.{os.urandom(4).hex()}"
    with open(beside, "wb") as written:
        marshal.dump(modules, written)
    os.replace(beside, file)


def load(file: str) -> dict[str, Module]:
    """Returns the standard library by the paths of its modules, and lets imports use it."""
    with open(file, "rb") as read:
        modules = marshal.load(read)
    for path, (packed, length, _) in modules.items():
        cached = importlib.util.cache_from_source(path)
        os.makedirs(os.path.dirname(cached), exist_ok=True)
        with open(cached, "wb") as written:
            written.write(unpack(packed, length))
    return modules


def reachable(modules: dict[str, Module], named: set[str]) -> set[str]:
    """Returns the paths of the modules that may be imported late: those of packages that a source names, and of the packages
    that these name."""
    of_package: dict[str, list[str]] = {}
    for path in modules:
        of_package.setdefault(package(path), []).append(path)
    left = [name for name in of_package if name in named or name in _ALWAYS or name in sys.modules]
    found: set[str] = set()
    seen = set(left)
    while left:
        for path in of_package[left.pop()]:
            found.add(path)
            new = [name for name in modules[path][2] if name in of_package and name not in seen]
            seen.update(new)
            left.extend(new)
    return found


def is_test_module(file: str) -> bool:
    """Returns whether a file has tests, by its name."""
    return file.startswith("test") and file.endswith(".py")


def is_of_tests(path: str) -> bool:
    """Returns whether a file belongs to tests, by its path in the project."""
    *folders, file = path.split("/")
    return is_test_module(file) or file == "conftest.py" or "test" in folders or "tests" in folders


def package(path: str) -> str:
    """Returns the top of the package that a module of the standard library is in."""
    return path.split("/")[2].removesuffix(".py")


def names(source: bytes) -> set[str]:
    """Returns the packages that a source imports, or may import by a name in a text."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
            found.add(node.value.partition(".")[0])
    return found


def found_by_name(source: bytes) -> set[str]:
    """Returns the packages with modules that a source looks for by name."""
    return {name.decode().partition(".")[0] for name in re.findall(rb"find_spec\(\s*[\"\']([\w.]+)", source)}


def compiled(source: bytes, path: str, optimize: int = -1) -> bytes:
    """Returns the contents of a `.pyc` that is used without a look at the source."""
    code = compile(source, path, "exec", dont_inherit=True, optimize=optimize)
    return importlib.util.MAGIC_NUMBER + b"\x01\0\0\0" + bytes(8) + marshal.dumps(code)


def files_below(top: str, left_out: Container[str] = ()) -> Iterable[tuple[str, bytes]]:
    """Returns the files below a folder, without machine code and what is hidden."""
    for folder, folders, names in os.walk(top):
        folders[:] = [it for it in folders if it not in _HIDDEN and it not in left_out and it[0] != "."]
        for name in names:
            if name.rpartition(".")[0] not in left_out and not name.endswith(_MACHINE_CODE):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    yield path, file.read()


def pack(content: bytes) -> bytes:
    """Returns a file as it is carried."""
    return zlib.compress(content, 9, -15)


def unpack(packed: bytes, length: int) -> bytes:
    """Returns a file that `pack` has made, of a length."""
    return zlib.decompress(packed, -15, length or 1)
