"""What recipes/wheels packs beside a package: modules, entry points, the versions that it was built with."""

import importlib.metadata
import json
import sys
import zipfile
from pathlib import Path

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
