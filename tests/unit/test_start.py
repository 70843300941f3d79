"""What every Python of the suites in the image does first (tests/start): no collection during `import torch`, none of
what it brought afterwards, and torch_npu without Inductor."""

from __future__ import annotations

import os
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


PACKAGES = {
    "torch/__init__": "backends = []\nimport torch_npu",
    "torch/_inductor/__init__": "",
    "torch/_inductor/compile_fx": "capture = 'of torch'",
    "torch_npu/__init__": "from torch_npu.utils import _apply_npugraph_tree_methods\n_apply_npugraph_tree_methods()",
    "torch_npu/utils/__init__": "from ._graph_tree import _apply_npugraph_tree_methods",
    "torch_npu/utils/_graph_tree": """
import torch
from torch._inductor.compile_fx import capture as plain

def _apply_npugraph_tree_methods():
    torch.backends.append("npugraphs")
    torch._inductor.compile_fx.capture = "of torch_npu, over that " + plain
""",
}
NOW = "print('torch._inductor.compile_fx' in sys.modules, torch.backends)\n"
CAPTURE = "import torch._inductor.compile_fx\nprint(torch._inductor.compile_fx.capture, torch.backends)\n"
CAUGHT_UP = "of torch_npu, over that of torch ['npugraphs']\n"


@pytest.mark.parametrize(
    ("program", "variables", "said"),
    [
        (f"import torch\n{NOW}{CAPTURE}", {}, f"False []\n{CAUGHT_UP}"),
        (
            f"import torch\ntorch_npu = sys.modules['torch_npu']\ntorch_npu.utils._graph_tree.plain\n{NOW}",
            {},
            "True ['npugraphs']\n",
        ),
        (f"import torch\nhasattr(torch.torch_npu.utils._graph_tree, '__file__')\n{NOW}", {}, "False []\n"),
        (f"import torch._inductor.compile_fx\n{NOW}{CAPTURE}", {}, f"True ['npugraphs']\n{CAUGHT_UP}"),
        (f"import torch\n{NOW}{CAPTURE}", {"GRSTACK_FORK_RANKS": "0"}, f"True ['npugraphs']\n{CAUGHT_UP}"),
        (f"import torch\n{NOW}{CAPTURE}", {"GRSTACK_NPUS": "8"}, f"True ['npugraphs']\n{CAUGHT_UP}"),
    ],
)
def test_inductor_is_imported_when_a_program_wants_it(
    tmp_path: Path, program: str, variables: dict[str, str], said: str
) -> None:
    for name, text in PACKAGES.items():
        file = tmp_path / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    program = f"import sys; sys.path[:0] = [{str(START)!r}, {str(tmp_path)!r}]; import sitecustomize\n{program}"
    env = {name: value for name, value in os.environ.items() if not name.startswith("GRSTACK_")}
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, env={**env, **variables}
    )
    assert ran.stdout == said, ran.stderr
