"""Which torchrec the tests see.

GRSTACK_WHEELS, where set, names the folder of locked wheels: the patched wheel is built from it and put first
on the path. Otherwise the installed torchrec must be the patched one (as in the image).
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

RECIPE = Path(__file__).resolve().parents[1]
PATCHES = RECIPE.parents[1] / "patches" / "torchrec"
sys.path.insert(0, str(RECIPE))

import build_wheel  # noqa: E402

# The tests' own process uses no NPU; without CANN or the twin, torch_npu fails to load. Subprocesses decide anew.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
_scratch = tempfile.TemporaryDirectory(prefix="torchrec-tests-")
_wheels = os.environ.get("GRSTACK_WHEELS")


def _patched_tree() -> Path | None:
    if _wheels is None:
        return None
    tree = Path(_scratch.name) / "patched"
    wheel = build_wheel.build(build_wheel.find_wheel(Path(_wheels), PYTHON), PATCHES, Path(_scratch.name), 0)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tree)
    sys.path.insert(0, str(tree))
    return tree


_tree = _patched_tree()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "twin: needs the twin's runtime")


def _version() -> str:
    try:
        return importlib.metadata.version("torchrec")
    except importlib.metadata.PackageNotFoundError:
        return "none"


@pytest.fixture(scope="session")
def upstream_wheel() -> Path:
    if _wheels is None:
        pytest.fail("needs the locked upstream wheel: set GRSTACK_WHEELS")
    return build_wheel.find_wheel(Path(_wheels), PYTHON)


@pytest.fixture(scope="session")
def upstream_tree(upstream_wheel: Path) -> Path:
    tree = Path(_scratch.name) / "upstream"
    build_wheel.unpack(upstream_wheel, tree)
    return tree


@pytest.fixture(scope="session")
def patched() -> str:
    """PYTHONPATH under which a subprocess imports the patched torchrec."""
    if not _version().endswith("+npu"):
        pytest.fail("needs the patched torchrec: install it, or set GRSTACK_WHEELS")
    return "" if _tree is None else str(_tree)
