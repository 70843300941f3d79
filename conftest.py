"""For every suite: what a test draws follows from its name, so that a failure can be repeated; NPUs that are there;
Ctrl-C for the programs of tests; torch imported at less cost, and ranks that share an import (tests/start).

GRSTACK_NPUS: how many devices this machine has; tests that need more are skipped. Unset: as many as asked. What a test
needs it says by the mark `npus`, or by a parameter `world` or `processes` of ranks on NPUs.
Tests marked emulated are left out on real devices (`inv accept`): they read what the twin counts, or set it.
"""

import importlib.util
import os
import runpy
import signal
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
START = HERE / "tests/start"


class InTriton(pytest.Module):
    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        pytest.skip("Triton, that these kernels are written in, is not installed", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Folders named cuda hold the tests of kernels in Triton, which has no wheel for every architecture."""
    if module_path.parent.name == "cuda" and importlib.util.find_spec("triton") is None:
        module: pytest.Module = InTriton.from_parent(parent, path=module_path)
        return module
    return None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "emulated: holds on emulated devices alone: reads the twin's counts, or sets it")
    config.addinivalue_line("markers", "npus(n): starts ranks on n NPUs; skipped where fewer are there")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background job has it, and all that it starts
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if importlib.util.find_spec("torch") is not None:
        sys.path.append(str(START))
        runpy.run_path(str(START / "sitecustomize.py"))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(START), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.fixture(autouse=True)
def drawn_from_name(request: pytest.FixtureRequest) -> None:
    seed = zlib.crc32(request.node.name.encode())
    if "torch" in sys.modules:  # the host's tests have none; the CPU's generator only, since a device may be unset
        sys.modules["torch"].default_generator.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def npus_of(item: pytest.Item) -> int:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    on_npus = item.get_closest_marker("twin") is not None or params.get("kind") == "npu"
    by_parameter = params.get("world", params.get("processes", 1)) if on_npus else 1
    return max([by_parameter, *(mark.args[0] for mark in item.iter_markers("npus"))])


def pytest_runtest_setup(item: pytest.Item) -> None:
    here = os.environ.get("GRSTACK_NPUS")
    if here and int(here) < (needed := npus_of(item)):
        pytest.skip(f"{needed} NPUs are needed, this machine has {here}")
