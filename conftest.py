"""For every suite: what a test draws follows from its name, so that a failure can be repeated; NPUs that are there.

GRSTACK_NPUS: how many devices this machine has; tests of more processes on NPUs are skipped. Unset: as many as asked.
"""

import os
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


def pytest_runtest_setup(item: pytest.Item) -> None:
    here = os.environ.get("GRSTACK_NPUS")
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    needed = params.get("world", params.get("processes", 1))
    if here and int(here) < needed and (item.get_closest_marker("twin") or params.get("kind") == "npu"):
        pytest.skip(f"{needed} NPUs are needed, this machine has {here}")
