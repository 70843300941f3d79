"""The devices on which the tests of both libraries run: the CPU, and in the npu image an NPU (the twin's).

With TORCH_DEVICE_BACKEND_AUTOLOAD=0 those of the CPU run anywhere.
"""

import os

import pytest

HAS_NPU = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0"


def add_markers(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "twin: needs the twin's runtime")


@pytest.fixture(params=["cpu", "npu:0"] if HAS_NPU else ["cpu"])
def device(request: pytest.FixtureRequest) -> str:
    """Each device that this environment has."""
    return request.param
