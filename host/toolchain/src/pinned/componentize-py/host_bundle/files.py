"""Files that a component carries: compressed, in its memory, and read-only.

A cell gives a component no file system. So what reads files (`open`, `os.stat`, `os.listdir`, `os.scandir`, `os.access`) looks
here first, and all that is built on it works: imports, `importlib.resources`, `pkgutil`, `pathlib`, `glob`, `linecache`."""

import _io
import builtins
import errno
import importlib
import io
import os
import posix
import stat as _stat
import sys
from typing import Iterable

from .library import is_of_tests, pack, unpack

# A file has its compressed contents and their length, a folder the names in it.
_files: dict[str, tuple[bytes, int]] = {}
_folders: dict[str, tuple[str, ...]] = {}
_HOME = "/0"
"""Relative paths begin in the folder of the project."""


class Archive:
    """The files that a component is going to carry. Each is compressed when it is added: the build stays small in memory."""

    def __init__(self) -> None:
        self._packed: dict[bytes, bytes] = {}
        self._files: dict[str, tuple[bytes, int]] = {}
        self.size = 0

    def add(self, path: str, content: bytes) -> None:
        """Adds a file."""
        self.add_packed(path, pack(content), len(content))

    def add_packed(self, path: str, packed: bytes, length: int) -> None:
        """Adds a file that is compressed. Files with the same contents are kept once."""
        if packed not in self._packed:
            self._packed[packed] = packed
            self.size += len(packed)
        self._files[path] = (self._packed[packed], length)

    def has(self, path: str) -> bool:
        """Returns whether a file was added."""
        return path in self._files

    def seal(self) -> None:
        """Makes these files those of the component, instead of those that the builder reads."""
        folders: dict[str, dict[str, None]] = {}
        for path in self._files:
            while path != "/":
                path, name = os.path.split(path)
                names = folders.setdefault(path, {})
                if name in names:
                    break
                names[name] = None
        _files.update(self._files)
        _folders.update((path, tuple(names)) for path, names in folders.items())
        if not os.path.isdir(_TEMPORARY):
            _folders[_TEMPORARY] = ()
            _folders["/"] = (*_folders.get("/", ()), _TEMPORARY[1:])
        sys.path_importer_cache.clear()


def contents() -> Iterable[bytes]:
    """Returns what is carried, compressed."""
    return (packed for packed, _ in _files.values())


_of_tests: set[str] = set()
"""Files that only tests read: a component that is deployed does not have them."""


def keep_for_tests(paths: set[str]) -> None:
    """Hides files from handlers."""
    _of_tests.update(paths)


def _is_hidden(path: str) -> bool:
    """Returns whether a file is for tests, and the code of the project that reads it is no test."""
    if path not in _of_tests:
        return False
    frame = sys._getframe(2)
    while frame:
        home, _, name = frame.f_code.co_filename.partition(_HOME + "/")
        if name and not home and not name.startswith("host_jobs/"):
            return not is_of_tests(name)
        frame = frame.f_back
    return False


def _path(given):
    """Returns the path of what is carried, or None."""
    if not _folders or isinstance(given, int) or given is None:
        return None
    path = os.fsdecode(given)
    if path not in _files and path not in _folders:
        path = os.path.normpath(os.path.join(_HOME, path))
    return path if (path in _files and not _is_hidden(path)) or path in _folders else None


def _read(path: str) -> bytes:
    return unpack(*_files[path])


_TEMPORARY = "/tmp"
"""Files that handlers write here are in memory, if the host gives no folder of this name."""
_TIMES = (1_600_000_000,) * 3
"""When all files were made. Zip files begin in 1980."""
_descriptors: dict[int, str] = {}


def _temporary(given) -> str | None:
    """Returns the path of a temporary file, which need not exist, if it is in memory."""
    if _TEMPORARY not in _folders or isinstance(given, int) or given is None:
        return None
    path = os.path.normpath(os.path.join(_HOME, os.fsdecode(given)))
    return path if path.startswith(_TEMPORARY + "/") else None


def _put(path: str, content: bytes | None) -> None:
    """Stores a temporary file, or removes it."""
    folder, name = os.path.split(path)
    if folder not in _folders:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    others = tuple(it for it in _folders[folder] if it != name)
    _folders[folder] = others if content is None else (*others, name)
    if content is None:
        _files.pop(path, None)
        _folders.pop(path, None)
    else:
        _files[path] = (pack(content), len(content))


class _Written(io.BytesIO):
    """A temporary file that is open for writing."""

    def __init__(self, path: str, name: object, mode: str) -> None:
        exists = path in _files
        if "x" in mode and exists:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if "r" in mode and not exists:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        super().__init__(_read(path) if exists and "w" not in mode else b"")
        self.path, self.name, self.mode = path, name, mode
        if "a" in mode:
            self.seek(0, io.SEEK_END)
        self.flush()

    def flush(self) -> None:
        _put(self.path, self.getvalue())

    def close(self) -> None:
        if not self.closed and self.path in _files:
            self.flush()
        super().close()


class _File(io.BytesIO):
    def __init__(self, path: str, name: object) -> None:
        super().__init__(_read(path))
        self.name, self.mode = name, "rb"

    def writable(self) -> bool:
        return False

    def write(self, _: object) -> int:
        raise io.UnsupportedOperation("not writable")


def _open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    if opener is not None and (_temporary(file) or file == _TEMPORARY):
        file = opener(file, 0)
    if isinstance(file, int) and file in _descriptors:
        file = _descriptors.pop(file) if closefd else _descriptors[file]
        mode = mode.replace("x", "w")
    written = _temporary(file)
    if written and (set(mode) & set("wax+")):
        raw = _Written(written, file, mode)
        return raw if "b" in mode else io.TextIOWrapper(raw, encoding or "utf-8", errors, newline)
    path = _path(file)
    if path is None or opener is not None:
        return _real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    if set(mode) & set("wax+"):
        raise OSError(errno.EROFS, "the files of a component are read-only", file)
    if path in _folders:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
    if "b" in mode:
        return _File(path, file)
    return io.TextIOWrapper(_File(path, file), encoding or "utf-8", errors, newline)


def _open_code(path):
    kept = _path(path)
    return _real_open_code(path) if kept not in _files else _File(kept, path)


def _open_descriptor(path, flags, mode=0o777, *, dir_fd=None):
    written = _temporary(path)
    if not written:
        return _real["open"](path, flags, mode, dir_fd=dir_fd)
    if flags & os.O_EXCL and written in _files:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    if written not in _files:
        _put(written, b"")
    number = 1 << 20 | len(_descriptors)
    _descriptors[number] = written
    return number


def _close(number):
    if _descriptors.pop(number, None) is None:
        _real["close"](number)


def _write(number, data):
    if number not in _descriptors:
        return _real["write"](number, data)
    path = _descriptors[number]
    _put(path, _read(path) + bytes(data))
    return len(data)


def _unlink(path, *, dir_fd=None):
    written = _temporary(path)
    if not written:
        return _real["unlink"](path, dir_fd=dir_fd)
    if written not in _files:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    _put(written, None)


def _mkdir(path, mode=0o777, *, dir_fd=None):
    written = _temporary(path)
    if not written:
        return _real["mkdir"](path, mode, dir_fd=dir_fd)
    if written in _folders or written in _files:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    _put(written, b"")
    del _files[written]
    _folders[written] = ()


def _rmdir(path, *, dir_fd=None):
    written = _temporary(path)
    if not written:
        return _real["rmdir"](path, dir_fd=dir_fd)
    if _folders.get(written, ("",)):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
    _put(written, None)


def _rename(source, target, **options):
    old, new = _temporary(source), _temporary(target)
    if not old or not new:
        return _real["rename"](source, target, **options)
    _put(new, _read(old))
    _put(old, None)


def _status(path: str) -> os.stat_result:
    if path in _folders:
        return os.stat_result((_stat.S_IFDIR | 0o555, 0, 0, 1, 0, 0, 0, *_TIMES))
    return os.stat_result((_stat.S_IFREG | 0o444, 0, 0, 1, 0, 0, _files[path][1], *_TIMES))


def _replaced_stat(real):
    def stat(path, *, dir_fd=None, **options):
        kept = _path(path) if dir_fd is None else None
        return real(path, dir_fd=dir_fd, **options) if kept is None else _status(kept)

    return stat


def _access(path, mode, **options):
    kept = _path(path)
    return _real["access"](path, mode, **options) if kept is None else not mode & os.W_OK


def _names(path):
    kept = _path("." if path is None else path)
    if kept is None:
        return None
    if kept not in _folders:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return _folders[kept]


def _listdir(path=None):
    names = _names(path)
    if names is None:
        return _real["listdir"](path)
    return [os.fsencode(name) for name in names] if isinstance(path, bytes) else list(names)


class _Entry:
    def __init__(self, folder: str, name: str) -> None:
        self.name, self.path = name, os.path.join(folder, name)

    def __fspath__(self) -> str:
        return self.path

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return _path(self.path) in _folders

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return _path(self.path) in _files

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def inode(self) -> int:
        return 0

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path)


class _Entries:
    def __init__(self, entries: list[_Entry]) -> None:
        self._left = iter(entries)

    def __iter__(self):
        return self._left

    def __next__(self) -> _Entry:
        return next(self._left)

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._left = iter(())


def _scandir(path=None):
    names = _names(path)
    if names is None:
        return _real["scandir"](path)
    folder = os.fsdecode("." if path is None else path)
    return _Entries([_Entry(folder, name) for name in names])


_REPLACED = ("stat", "lstat", "listdir", "scandir", "access", "open", "close", "write", "unlink", "remove", "mkdir", "rmdir", "rename", "replace")
_real = {name: getattr(posix, name) for name in _REPLACED}
_real_open, _real_open_code = io.open, io.open_code


def install() -> None:
    """Replaces what reads files. Nothing changes until files are kept."""
    replaced = {
        "stat": _replaced_stat(_real["stat"]),
        "lstat": _replaced_stat(_real["lstat"]),
        "listdir": _listdir,
        "scandir": _scandir,
        "access": _access,
        "open": _open_descriptor,
        "close": _close,
        "write": _write,
        "unlink": _unlink,
        "remove": _unlink,
        "mkdir": _mkdir,
        "rmdir": _rmdir,
        "rename": _rename,
        "replace": _rename,
    }
    for module in (posix, os):
        for name, function in replaced.items():
            setattr(module, name, function)
    for module in (_io, io, builtins):
        module.open = _open
    for module in (_io, io):
        module.open_code = _open_code
    importlib.invalidate_caches()
