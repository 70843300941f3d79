"""PEP 517 backend of gr_model: its folder is the package, without tests and this folder. No library, so any platform.

gr_ops, fbgemm_gpu and torchrec are not required: without them plain PyTorch stands in, and tables are copies.
"""

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT.parent / "recipes/wheels"))

import native_wheel as wheels  # noqa: E402

PACKAGE = "gr_model"
LEFT_OUT = ("tests", "build_backend", "__pycache__")
PACKED = (".py", ".css")


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel into wheel_directory and return its file name."""
    project = wheels.NativeWheel(root=ROOT, package=PACKAGE)
    version = project.project_field("version")
    info = f"{PACKAGE}-{version}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: {PACKAGE}\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    entries = {f"{PACKAGE}/{path.relative_to(ROOT).as_posix()}": path.read_bytes() for path in files()}
    entries[f"{info}/METADATA"] = metadata(project, version).encode()
    entries[f"{info}/WHEEL"] = wheel.encode()
    entries[f"{info}/RECORD"] = wheels.record(entries, f"{info}/RECORD")
    name = f"{PACKAGE}-{version}-py3-none-any.whl"
    wheels.write_zip(Path(wheel_directory) / name, entries)
    return name


def files() -> list[Path]:
    found = (path for path in ROOT.rglob("*") if path.suffix in PACKED)
    return sorted(path for path in found if not set(path.relative_to(ROOT).parts) & set(LEFT_OUT))


def metadata(project: wheels.NativeWheel, version: str) -> str:
    fields = [
        "Metadata-Version: 2.1",
        f"Name: {PACKAGE}",
        f"Version: {version}",
        f"Summary: {project.project_field('description')}",
        "License: Apache-2.0",
        f"Requires-Python: {project.project_field('requires-python')}",
    ]
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # Python 3.10 has no tomllib
    needed, _, extras = text.partition("\ndependencies = [")[2].partition("[project.optional-dependencies]")
    fields += [f"Requires-Dist: {name}" for name in re.findall(r'"([^"]+)"', needed)]
    for extra, names in re.findall(r"^(\w+) = \[(.*)\]$", extras, re.MULTILINE):
        fields.append(f"Provides-Extra: {extra}")
        fields += [f'Requires-Dist: {name}; extra == "{extra}"' for name in re.findall(r'"([^"]+)"', names)]
    return "".join(f"{line}\n" for line in fields)
