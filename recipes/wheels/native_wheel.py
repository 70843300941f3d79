"""Builds wheels of our packages: CMake builds their libraries, which are packed with the Python files.

The libraries are loaded by torch.ops.load_library and use no Python API, so one wheel serves every Python 3.
The wheel is reproducible: entries are sorted and carry SOURCE_DATE_EPOCH (or 1980) as their time.
A package's own PEP 517 backend (build_backend/wheel_backend.py) says what it consists of.
"""

import base64
import csv
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

EARLIEST_ZIP_TIME = 315532800  # 1980-01-01, the first second that a zip entry can carry


@dataclass(frozen=True, kw_only=True)
class NativeWheel:
    """A package in root: pyproject.toml, CMakeLists.txt if it has libraries, and its Python files in root/package.

    modules: files of root that stand beside the package: modules of their own, and .pth.
    beside: place in the wheel, outside of the package -> a library's place in the build folder.
    directories: CMake variable -> the installed package of which it is the directory.
    trees: place in the package -> a file or folder that is packed there as it is.
    scripts: name of a command -> the function that it calls, as module:function.
    entry_points: a group of entry points -> its names, each with what it loads, as module:object.
    built_with: packages whose versions the wheel remembers, in package/built_with.json.
    """

    root: Path
    package: str
    modules: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    directories: Mapping[str, str] = field(default_factory=dict)
    trees: Mapping[str, Path] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    entry_points: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    built_with: tuple[str, ...] = ()

    def build(self, wheel_directory: str) -> str:
        """Build the wheel into wheel_directory and return its file name."""
        version = self.project_field("version")
        native = bool(self.libraries or self.trees)
        tag = f"py3-none-linux_{platform.machine()}" if native else "py3-none-any"
        info = f"{self.package}-{version}.dist-info"
        files = sorted([*(self.root / self.package).rglob("*.py"), *(self.root / name for name in self.modules)])
        entries = {path.relative_to(self.root).as_posix(): path.read_bytes() for path in files}
        if self.libraries:
            entries.update(self._libraries())
        for place, tree in self.trees.items():
            entries.update(tree_entries(f"{self.package}/{place}", tree))
        if self.built_with:
            versions = {name: importlib.metadata.version(name) for name in self.built_with}
            entries[f"{self.package}/built_with.json"] = f"{json.dumps(versions, sort_keys=True)}\n".encode()
        pure = str(not native).lower()
        wheel = f"Wheel-Version: 1.0\nGenerator: {self.package}\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
        entries[f"{info}/METADATA"] = self._metadata(version).encode()
        entries[f"{info}/WHEEL"] = wheel.encode()
        groups = {**({"console_scripts": self.scripts} if self.scripts else {}), **self.entry_points}
        if groups:
            entries[f"{info}/entry_points.txt"] = entry_points(groups).encode()
        entries[f"{info}/RECORD"] = record(entries, f"{info}/RECORD")
        name = f"{self.package}-{version}-{tag}.whl"
        write_zip(Path(wheel_directory) / name, entries)
        return name

    def project_field(self, field: str) -> str:
        """A string of [project]; Python 3.10 has no tomllib."""
        text = (self.root / "pyproject.toml").read_text(encoding="utf-8")
        match = re.search(rf'^{field} = "([^"]*)"$', text, re.MULTILINE)
        if match is None:
            raise RuntimeError(f"{self.root / 'pyproject.toml'}: no {field} in [project]")
        return match.group(1)

    def _libraries(self) -> dict[str, bytes]:
        with tempfile.TemporaryDirectory(prefix=f"{self.package}-build-") as build:
            run = ["cmake", "-S", str(self.root), "-B", build, f"-DTORCH_CXX11_ABI={torch_cxx11_abi()}"]
            run += [f"-D{variable}={package_directory(name)}" for variable, name in self.directories.items()]
            subprocess.run(run, check=True)
            jobs = os.environ.get("GRSTACK_JOBS") or str(os.cpu_count() or 1)
            subprocess.run(["cmake", "--build", build, "--parallel", jobs], check=True)
            places = {f"{self.package}/{library}": library for library in self.libraries} | dict(self.beside)
            return {place: (Path(build) / library).read_bytes() for place, library in places.items()}

    def _metadata(self, version: str) -> str:
        fields = {
            "Metadata-Version": "2.1",
            "Name": self.package,
            "Version": version,
            "Summary": self.project_field("description"),
            "License": "Apache-2.0",
            "Requires-Python": self.project_field("requires-python"),
        }
        return "".join(f"{key}: {value}\n" for key, value in fields.items())


def entry_points(groups: Mapping[str, Mapping[str, str]]) -> str:
    parts = [
        "".join([f"[{group}]\n", *(f"{name} = {target}\n" for name, target in sorted(members.items()))])
        for group, members in groups.items()
    ]
    return "\n".join(parts)


def package_directory(package: str) -> Path:
    """Where a package is installed, without importing it: torch_npu cannot be imported without CANN."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{package} is not installed for {sys.executable}; install the locked wheel of {package}")
    return Path(spec.submodule_search_locations[0])


def torch_cxx11_abi() -> int:
    """The C++ ABI of the torch wheel; it differs by architecture and release, so torch itself is asked."""
    question = "import torch; print(int(torch.compiled_with_cxx11_abi()))"
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    answer = subprocess.run(
        [sys.executable, "-c", question], env=environment, check=True, capture_output=True, text=True
    )
    return int(answer.stdout.strip().splitlines()[-1])


def tree_entries(place: str, tree: Path) -> dict[str, bytes]:
    """The files of a folder, or the one file, by their names in the wheel."""
    if not tree.exists():
        raise RuntimeError(f"{tree} is not there to be packed as {place}; build it first")
    files = [tree] if tree.is_file() else [f for f in tree.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    return {f"{place}/{f.relative_to(tree).as_posix()}" if f != tree else place: f.read_bytes() for f in files}


def record(entries: dict[str, bytes], own_name: str) -> bytes:
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for name in sorted(entries):
        digest = base64.urlsafe_b64encode(hashlib.sha256(entries[name]).digest()).rstrip(b"=").decode()
        writer.writerow((name, f"sha256={digest}", len(entries[name])))
    writer.writerow((own_name, "", ""))
    return rows.getvalue().encode()


def write_zip(path: Path, entries: dict[str, bytes]) -> None:
    """Written beside its place and renamed, so that an interrupted build leaves no half wheel."""
    epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST_ZIP_TIME)), EARLIEST_ZIP_TIME)
    partial = path.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w") as archive:
        for name in sorted(entries):
            entry = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            executable = name.endswith(".so") or "/bin/" in name
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(entry, entries[name])
    partial.replace(path)
