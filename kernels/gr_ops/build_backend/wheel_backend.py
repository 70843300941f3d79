"""PEP 517 backend: CMake builds the two libraries, and they are packed with the Python files into one wheel.

The libraries are loaded by torch.ops.load_library and use no Python API, so one wheel serves every Python 3.
The wheel is reproducible: entries are sorted and carry SOURCE_DATE_EPOCH (or 1980) as their time.
"""

import base64
import csv
import hashlib
import importlib.util
import io
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "gr_ops"
LIBRARIES = ("libgr_ops.so", "libfbgemm_npu_api.so")
EARLIEST_ZIP_TIME = 315532800  # 1980-01-01, the first second that a zip entry can carry


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel into wheel_directory and return its file name."""
    version = project_field("version")
    tag = f"py3-none-linux_{platform.machine()}"
    info = f"{PACKAGE}-{version}.dist-info"
    entries = {f"{PACKAGE}/{path.name}": path.read_bytes() for path in (ROOT / PACKAGE).glob("*.py")}
    with tempfile.TemporaryDirectory(prefix="gr_ops-build-") as build:
        compile_libraries(Path(build))
        for library in LIBRARIES:
            entries[f"{PACKAGE}/{library}"] = (Path(build) / library).read_bytes()
    entries[f"{info}/METADATA"] = metadata(version).encode()
    entries[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: gr_ops\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    entries[f"{info}/RECORD"] = record(entries, f"{info}/RECORD")
    name = f"{PACKAGE}-{version}-{tag}.whl"
    write_zip(Path(wheel_directory) / name, entries)
    return name


def project_field(field: str) -> str:
    """A string of [project]; Python 3.10 has no tomllib."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(rf'^{field} = "([^"]*)"$', text, re.MULTILINE)
    if match is None:
        raise RuntimeError(f"{ROOT / 'pyproject.toml'}: no {field} in [project]")
    return match.group(1)


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


def compile_libraries(build: Path) -> None:
    """Configure and build CMakeLists.txt in build."""
    run = ["cmake", "-S", str(ROOT), "-B", str(build)]
    run += [f"-DTORCH_DIR={package_directory('torch')}", f"-DTORCH_NPU_DIR={package_directory('torch_npu')}"]
    run += [f"-DTORCH_CXX11_ABI={torch_cxx11_abi()}"]
    subprocess.run(run, check=True)
    jobs = os.environ.get("GRSTACK_JOBS") or str(os.cpu_count() or 1)
    subprocess.run(["cmake", "--build", str(build), "--parallel", jobs], check=True)


def metadata(version: str) -> str:
    fields = {
        "Metadata-Version": "2.1",
        "Name": PACKAGE,
        "Version": version,
        "Summary": project_field("description"),
        "License": "Apache-2.0",
        "Requires-Python": project_field("requires-python"),
    }
    return "".join(f"{key}: {value}\n" for key, value in fields.items())


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
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, entries[name])
    partial.replace(path)
