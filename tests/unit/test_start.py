"""What every Python of the suites in the image does first (tests/start): no collection during `import torch`, none of
what it brought afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

START = Path(__file__).resolve().parents[1] / "start"
TORCH = """
import gc
during = gc.isenabled()
kept = [[]]
if {fails}:
    raise ImportError("no device")
"""
PROGRAM = """
import gc, importlib.util, sys
before = len(sys.meta_path)
import json
inside = gc.isenabled()
try:
    import torch
    watched = {id(thing) for thing in gc.get_objects()}
    mine = [[]]
    print(id(torch.kept) in watched, id(mine) in {id(thing) for thing in gc.get_objects()})
    print(inside, torch.during, gc.isenabled(), before - len(sys.meta_path), torch.__spec__.origin)
except ImportError as error:
    print(inside, error, gc.isenabled(), before - len(sys.meta_path), importlib.util.find_spec("torch") is not None)
"""


@pytest.mark.parametrize("state", ["there", "failing", "absent"])
def test_collections_rest_while_torch_is_imported(tmp_path: Path, state: str) -> None:
    if state != "absent":
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch/__init__.py").write_text(TORCH.format(fails=state == "failing"))
    # -S: the toolchain's own environment may have a torch
    program = f"import sys; sys.path[:0] = [{str(START)!r}, {str(tmp_path)!r}]; import sitecustomize\n{PROGRAM}"
    ran = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    expected = {
        "there": f"False True\nTrue False True 1 {tmp_path}/torch/__init__.py",
        "failing": "True no device True 1 True",
        "absent": "True No module named 'torch' True 1 False",
    }
    assert ran.stdout.strip() == expected[state], ran.stderr
