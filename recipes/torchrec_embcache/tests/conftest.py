"""Tables and streams that the tests share."""

from __future__ import annotations

import os

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

from pathlib import Path  # noqa: E402

import pytest  # noqa: E402
from hybrid_torchrec.table import TableConfig  # noqa: E402


@pytest.fixture
def config() -> TableConfig:
    return TableConfig(name="item", dim=8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "rows"
