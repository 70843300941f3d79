"""Fixtures that the tests share. Slow tests run with ``-m slow`` only; their figures are in benchmarks/results."""

from __future__ import annotations

from pathlib import Path

import pytest
import shared  # noqa: F401 (makes helpers of hybrid_torchrec's tests importable)
import torch
from devices import HAS_NPU, add_markers, device
from hybrid_torchrec.backends import npu
from hybrid_torchrec.table import TableConfig

__all__ = ["config", "device", "folder"]


def pytest_configure(config: pytest.Config) -> None:
    add_markers(config)
    config.addinivalue_line("markers", "nightly: minutes to an hour, gigabytes of disk; also slow")
    config.addinivalue_line("markers", "memory(mib): `inv test --slow` gives the container no more than that")
    if HAS_NPU:
        import torch_npu  # noqa: F401

        assert npu.available(torch.device("npu"))


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
