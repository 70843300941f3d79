"""For every suite: what a test draws follows from its name, so that a failure can be repeated."""

import sys
import zlib

import pytest


@pytest.fixture(autouse=True)
def drawn_from_name(request: pytest.FixtureRequest) -> None:
    seed = zlib.crc32(request.node.name.encode())
    if "torch" in sys.modules:  # the host's tests have none; the CPU's generator only, since a device may be unset
        sys.modules["torch"].default_generator.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
