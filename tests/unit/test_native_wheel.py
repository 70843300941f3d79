"""What recipes/wheels packs beside a package: modules, entry points, the versions that it was built with."""

import importlib.metadata
import importlib.util
import json
import runpy
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "recipes/wheels"))

from native_wheel import NativeWheel  # noqa: E402


def test_modules_entry_points_and_versions(tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool/__init__.py").write_text("")
    (tmp_path / "tool_start.py").write_text("def go(): ...\n")
    (tmp_path / "other.py").write_text("")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "tool"\nversion = "1.2"\ndescription = "d"\nrequires-python = ">=3.10"\n'
    )
    name = NativeWheel(
        root=tmp_path,
        package="tool",
        modules=("tool_start.py",),
        scripts={"tool": "tool:main"},
        entry_points={"torch.backends": {"tool": "tool_start:go"}},
        built_with=("pytest",),
    ).build(str(tmp_path))
    with zipfile.ZipFile(tmp_path / name) as wheel:
        files = set(wheel.namelist())
        versions = json.loads(wheel.read("tool/built_with.json"))
        (distribution,) = importlib.metadata.distributions(path=[str(tmp_path / name)])
    assert {"tool_start.py", "tool/__init__.py"} <= files and "other.py" not in files
    assert versions == {"pytest": importlib.metadata.version("pytest")}
    entries = {(entry.group, entry.name, entry.value) for entry in distribution.entry_points}
    assert entries == {("console_scripts", "tool", "tool:main"), ("torch.backends", "tool", "tool_start:go")}


@pytest.mark.parametrize("torch_npu", [False, True])
def test_gr_ops_has_a_library_for_npu_tensors_where_torch_npu_is(
    torch_npu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    here = importlib.util.spec_from_loader("torch_npu", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: here if torch_npu else find(name, *more))
    wheel = runpy.run_path(str(ROOT / "kernels/gr_ops/build_backend/wheel_backend.py"))["WHEEL"]
    libraries = {*wheel.libraries, *wheel.beside.values()}
    assert any("fbgemm_npu_api" in library for library in libraries) == torch_npu
    assert "libgr_ops.so" in libraries and ("torch_npu" in wheel.built_with) == torch_npu
