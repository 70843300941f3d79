"""Fixtures that the tests share. Slow tests run with ``-m slow`` only; their figures are in benchmarks/results.

They run in the npu image. With TORCH_DEVICE_BACKEND_AUTOLOAD=0 those of the CPU run anywhere.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.backends import npu
from hybrid_torchrec.table import TableConfig

HAS_NPU = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "twin: needs the twin's runtime")
    config.addinivalue_line("markers", "nightly: minutes to an hour, gigabytes of disk; also slow")
    if HAS_NPU:
        import torch_npu  # noqa: F401

        assert npu.available(torch.device("npu"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    items[:] = [item for item in items if item not in slow]
    config.hook.pytest_deselected(items=slow)


@pytest.fixture(params=["cpu", "npu:0"] if HAS_NPU else ["cpu"])
def device(request: pytest.FixtureRequest) -> str:
    """Each device that this environment has."""
    return request.param


@pytest.fixture
def config() -> TableConfig:
    return TableConfig(name="item", dim=8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "rows"
