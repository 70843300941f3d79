"""Tests run in the npu image. With TORCH_DEVICE_BACKEND_AUTOLOAD=0 those of the CPU run anywhere."""

import os

import pytest

HAS_NPU = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "twin: needs the twin's runtime")


@pytest.fixture(scope="session", autouse=True)
def libraries() -> None:
    if HAS_NPU:
        import gr_ops
        import torch_npu  # noqa: F401

        gr_ops.load()
        assert gr_ops.npu_loaded()


@pytest.fixture(params=["cpu", "npu:0"] if HAS_NPU else ["cpu"])
def device(request: pytest.FixtureRequest) -> str:
    """Each device that this environment has."""
    return request.param
