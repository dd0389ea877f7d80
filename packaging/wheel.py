"""Writes a wheel, the same bytes for the same files: wheel.py PROJECT VERSION TAG EPOCH OUT LEVEL [NAME=FILE...]

PROJECT has a pyproject.toml with `name`, `description`, `requires-python` and `license`, a README.md, and the packages that
hatch would take. Each NAME=FILE becomes a program of the wheel.
"""

import base64
import hashlib
import sys
import time
import tomllib
import zipfile
from pathlib import Path

project, version, tag, epoch, out, level, *programs = sys.argv[1:]
project = Path(project)
settings = tomllib.loads((project / "pyproject.toml").read_text())
about = settings["project"]
name = about["name"].replace("-", "_")
info = f"{name}-{version}.dist-info"
license_file = next(path for folder in (project, *project.resolve().parents) if (path := folder / "LICENSE").exists())

metadata = f"""Metadata-Version: 2.4
Name: {about["name"]}
Version: {version}
Summary: {about["description"]}
License-Expression: {about["license"]}
License-File: LICENSE
Requires-Python: {about["requires-python"]}
Description-Content-Type: text/markdown

{(project / "README.md").read_text()}"""
is_pure = str(tag.endswith("-any")).lower()
wheel = f"Wheel-Version: 1.0\nGenerator: host\nRoot-Is-Purelib: {is_pure}\nTag: {tag}\n"

files = {}
packages = settings.get("tool", {}).get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {}).get("packages", [])
for package in packages:
    for path in sorted((project / package).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            files[str(path.relative_to(project))] = (path.read_bytes(), 0o644)
for program in programs:
    script, path = program.split("=", 1)
    files[f"{name}-{version}.data/scripts/{script}"] = (Path(path).read_bytes(), 0o755)
for path, text in {"METADATA": metadata, "WHEEL": wheel, "licenses/LICENSE": license_file.read_text()}.items():
    files[f"{info}/{path}"] = (text.encode(), 0o644)
lines = []
for path, (data, _) in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    lines.append(f"{path},sha256={digest},{len(data)}\n")
files[f"{info}/RECORD"] = ("".join([*lines, f"{info}/RECORD,,\n"]).encode(), 0o644)

# Zip has no time before 1980.
date = max(time.gmtime(int(epoch))[:6], (1980, 1, 1, 0, 0, 0))
target = Path(out) / f"{name}-{version}-{tag}.whl"
with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=int(level)) as archive:
    for path, (data, mode) in files.items():
        entry = zipfile.ZipInfo(path, date)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data, compresslevel=int(level))
print(target)
