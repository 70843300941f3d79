"""Fixtures that the tests share."""

import pytest
from devices import HAS_NPU, add_markers, device

__all__ = ["device"]


def pytest_configure(config: pytest.Config) -> None:
    add_markers(config)


@pytest.fixture(scope="session", autouse=True)
def libraries() -> None:
    if HAS_NPU:
        import gr_ops
        import torch_npu  # noqa: F401

        gr_ops.load()
        assert gr_ops.npu_loaded()
