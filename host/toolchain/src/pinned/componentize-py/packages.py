"""Installs what `requirements.txt` locks for the Python of components, not for that of this machine.

Packages come as wheels, so that none runs a program. Where a wheel has machine code, the code is left out: a package whose code
is optional works without it, and the build tells which do not. Usage: packages.py REQUIREMENTS FOLDER"""

import marshal
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

from pip._vendor.packaging.markers import Marker

sys.path.insert(0, str(pathlib.Path(__file__).with_name("packages")))
from host_bundle import library  # noqa: E402

VERSION = "3.14"
_ENVIRONMENT = {
    "implementation_name": "cpython",
    "implementation_version": "3.14.0",
    "os_name": "posix",
    "platform_machine": "wasm32",
    "platform_python_implementation": "CPython",
    "platform_release": "",
    "platform_system": "wasi",
    "platform_version": "",
    "python_full_version": "3.14.0",
    "python_version": VERSION,
    "sys_platform": "wasi",
    "extra": "",
}
_PURE = ["--platform", "any", "--python-version", VERSION]
_MACHINES = [*(f"manylinux_2_{version}" for version in range(40, 4, -1)), "manylinux2014", "manylinux2010", "manylinux1", "musllinux_1_2"]
_OLDER = ("3.13", "3.12", "3.11")
"""Whose wheels may do if there is none for this version: without machine code they are the same."""
_CODE = (".so", ".pyd", ".dylib")


def requirements(text: str) -> list[str]:
    """Returns the lines of a lock file that apply to a component, without markers."""
    joined = re.sub(r"\\\s*\n", " ", text)
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines()]
    applying = []
    for line in filter(None, lines):
        found = re.match(r"(?P<what>[^;]+?)\s*;\s*(?P<marker>.*?)(?P<hashes>(\s+--hash=\S+)*)$", line)
        if line[0] == "-" or not found:
            applying.append(line)
        elif Marker(found["marker"]).evaluate(_ENVIRONMENT):
            applying.append(found["what"] + found["hashes"])
    return applying


def install(lines: list[str], folder: pathlib.Path, options: list[str], quiet: bool = False) -> bool:
    """Installs packages from wheels that fit; `quiet` if another attempt follows."""
    with tempfile.TemporaryDirectory() as downloads:
        listed = pathlib.Path(downloads, "requirements.txt")
        listed.write_text("\n".join(lines) + "\n")
        # Unlike `install`, `download` checks `requires-python` for the version that is named.
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--dest", downloads]
        command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--implementation", "cp"]
        command += [*options, "--requirement", str(listed)]
        output = subprocess.DEVNULL if quiet else None
        if subprocess.run(command, stdout=output, stderr=output).returncode:
            return False
        for wheel in sorted(pathlib.Path(downloads).glob("*.whl")):
            unpack(wheel, folder)
    return True


def unpack(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """Puts the modules and data of a wheel into a folder. Its scripts are left out."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = pathlib.PurePosixPath(name).parts
            if parts and parts[0].endswith(".data"):
                if len(parts) < 3 or parts[1] not in ("purelib", "platlib"):
                    continue
                parts = parts[2:]
            if name.endswith("/") or ".." in parts or name.startswith("/"):
                continue
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))


def with_code(version: str) -> list[str]:
    """Returns the options that accept wheels with machine code."""
    tag = "cp" + version.replace(".", "")
    platforms = [option for it in _MACHINES for option in ("--platform", f"{it}_x86_64")]
    return [*platforms, "--abi", tag, "--abi", "abi3", "--abi", "none", "--python-version", version]


def install_each(lines: list[str], folder: pathlib.Path) -> None:
    """Installs packages one by one, those without a pure wheel without their machine code."""
    options = [line for line in lines if line[0] == "-"]
    for line in lines:
        if line[0] == "-":
            continue
        ways = [_PURE, *(with_code(version) for version in (VERSION, *_OLDER))]
        if not any(install([*options, line], folder, way, quiet=True) for way in ways):
            install([*options, line], folder, ways[0])  # It says why.
            name = line.split()[0]
            sys.exit(f"{name}: no wheel of it fits Python {VERSION}; a source distribution would run a program when it is installed")


def leave_out_code(folder: pathlib.Path) -> None:
    """Removes machine code and notes whose it was."""
    left_out = set()
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(_CODE) or ".so." in path.name:
            left_out.add(path.relative_to(folder).parts[0].split(".")[0])
            path.unlink()
    tops = sorted(it for it in left_out if not it.endswith("libs"))
    folder.with_name("machine-code.txt").write_text("\n".join(tops))


def pack_files(folder: pathlib.Path) -> None:
    """Compresses all files for the component, and notes which packages of the standard library they name."""
    packed: dict[str, tuple[bytes, int]] = {}
    named: set[str] = set()
    found_by_name: set[str] = set()
    for path, content in library.files_below(str(folder)):
        packed[path.removeprefix(f"{folder}/")] = (library.pack(content), len(content))
        if path.endswith(".py"):
            found_by_name |= library.found_by_name(content)
            try:
                named |= library.names(content)
            except (SyntaxError, ValueError):
                continue  # It is for another version.
    folder.with_name("packed.bin").write_bytes(marshal.dumps((packed, sorted(named), sorted(found_by_name)), 2))


def main(listed: str, folder: str) -> None:
    lines, place = requirements(pathlib.Path(listed).read_text()), pathlib.Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    if lines and not install(lines, place, _PURE, quiet=True):
        install_each(lines, place)
    leave_out_code(place)
    pack_files(place)


if __name__ == "__main__":
    main(*sys.argv[1:])
