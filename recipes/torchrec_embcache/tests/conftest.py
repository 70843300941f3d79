"""Fixtures that the tests share. Slow tests run with ``-m slow`` only; their figures are in benchmarks/results."""

from __future__ import annotations

import os

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

from pathlib import Path  # noqa: E402

import pytest  # noqa: E402
from hybrid_torchrec.table import TableConfig  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nightly: minutes to an hour, gigabytes of disk; also slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    items[:] = [item for item in items if item not in slow]
    config.hook.pytest_deselected(items=slow)


@pytest.fixture
def config() -> TableConfig:
    return TableConfig(name="item", dim=8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "rows"
