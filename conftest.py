"""For every suite: what a test draws follows from its name, so that a failure can be repeated; NPUs that are there;
Ctrl-C for the programs of tests; torch imported at less cost, and ranks that share an import (tests/start).

GRSTACK_NPUS: how many devices this machine has; tests of more processes on NPUs are skipped. Unset: as many as asked.
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

START = Path(__file__).parent / "tests/start"


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
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background job has it, and all that it starts
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if importlib.util.find_spec("torch") is not None:
        runpy.run_path(str(START / "sitecustomize.py"))
        sys.path.append(str(START))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(START), *filter(None, [os.environ.get("PYTHONPATH")])])


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
