import os
import zipfile
from pathlib import Path

import pytest

from smoke_tests.check import Context
from smoke_tests.checks import traps

pytestmark = pytest.mark.twin
CONTEXT = Context(Path(), Path(), {}, {"target": "npu"})


def test_patched_torchrec_trains_a_sharded_table():
    assert traps.torchrec_faults(CONTEXT, os.environ) == []


def test_upstream_torchrec_is_caught(tmp_path):
    """The locked original, put first on the path, under a version that says it is the patched one."""
    (wheel,) = Path(os.environ["GRSTACK_WHEELS"]).glob("torchrec-1.1.0-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"}
    (fault,) = traps.torchrec_faults(CONTEXT, environment)
    assert fault.startswith("torchrec: exit code 1: ") and "unsupported compute device npu" in fault
