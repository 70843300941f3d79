"""Programs that never import gr_ops have its operators, and go on where it cannot be loaded (gr_ops_autoload)."""

import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import gr_ops
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
STEP = """
x = torch.tensor([2, 3, 1]).npu()
offsets = torch.ops.fbgemm.asynchronous_complete_cumsum(x)
print(offsets.tolist(), torch.ops.fbgemm.invert_permute(torch.tensor([2, 0, 1]).npu()).tolist())
"""
ANSWER = "[0, 2, 5, 6] [1, 2, 0]\n"


@pytest.mark.parametrize(
    "imports",  # find_spec: what libraries ask before they import
    [
        "torch, fbgemm_gpu",
        "torch, torch_npu, fbgemm_gpu",
        "torch_npu, fbgemm_gpu, torch",
        "fbgemm_gpu, torch",
        "torchrec, torch",
        "torch, torchrec",
        "torch",
        "torch_npu, torch",
        "gr_ops, torch",
        "torch, gr_ops, fbgemm_gpu",
        "fbgemm_gpu, gr_ops, torch",
    ],
)
def test_any_order_of_imports(fresh_process: Run, imports: str) -> None:
    ran = fresh_process(f"import {imports}{STEP}")
    assert ran.stdout == ANSWER and "CAUTION" not in ran.stderr and "Warning" not in ran.stderr, ran.stderr


def test_importing_torch_loads_nothing_and_our_own_names_need_no_import(fresh_process: Run) -> None:
    script = """
        import torch, sys
        print({'gr_ops', 'fbgemm_gpu'} & {*sys.modules}, 'torch_npu' in sys.modules)
        q = torch.ones(3, 1, 8).npu()
        print(torch.ops.mxrec.hstu_dense(q, q, q, None, None, 0, 3, 1.0, "jagged", [0, 3]).shape)
        print(type(torch.ops.mxrec).__name__, hasattr(torch.ops.mxrec, "nothing"))
    """
    ran = fresh_process(script)
    assert ran.stdout == "set() True\ntorch.Size([3, 1, 8])\n_OpNamespace False\n", ran.stdout + ran.stderr


def test_with_autoload_off_nothing_is_loaded(fresh_process: Run) -> None:
    script = """
        import torch, fbgemm_gpu, sys
        print('gr_ops' in sys.modules, len(torch.ops.fbgemm.invert_permute.overloads()))
    """
    ran = fresh_process(script, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert ran.stdout == "False 1\n" and ran.stderr == "", ran.stdout + ran.stderr


def test_with_autoload_off_torch_npu_may_be_imported(fresh_process: Run) -> None:
    script = "import torch_npu, fbgemm_gpu, sys; print('gr_ops' in sys.modules)"
    ran = fresh_process(script, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert ran.stdout == "False\n", ran.stdout + ran.stderr


def test_starting_python_imports_next_to_nothing(fresh_process: Run) -> None:
    """The .pth is read by every Python of the environment."""
    script = """
        import sys
        for name in ("gr_ops_autoload", "__future__"):
            sys.modules.pop(name)
        before = {*sys.modules}
        import gr_ops_autoload
        print({*sys.modules} - before - {"gr_ops_autoload", "__future__"})
        print({"torch", "typing", "importlib.util"} & {*sys.modules})
    """
    ran = fresh_process(script, PYTHONPATH=None)
    assert ran.stdout == "set()\nset()\n" and ran.stderr == "", ran.stdout + ran.stderr


def test_without_torch_npu_nothing_is_installed(fresh_process: Run) -> None:
    script = """
        import importlib.util, sys
        import torch, gr_ops_autoload
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, package=None: None if name == 'torch_npu' else find(name, package)
        before = list(sys.meta_path), dict(vars(torch.ops))
        gr_ops_autoload.register()
        print(before == (list(sys.meta_path), dict(vars(torch.ops))))
        importlib.util.find_spec = find
        sys.modules['torch_npu'] = None  # blocked
        gr_ops_autoload.register()
        print(before == (list(sys.meta_path), dict(vars(torch.ops))))
        del sys.modules['torch_npu']
        gr_ops_autoload.register()
        print(before == (list(sys.meta_path), dict(vars(torch.ops))))
    """
    ran = fresh_process(script, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert ran.stdout == "True\nTrue\nFalse\n", ran.stdout + ran.stderr


@pytest.mark.emulated
def test_without_a_device(fresh_process: Run) -> None:
    script = """
        import torch, fbgemm_gpu
        print(torch.npu.device_count(), torch.ops.fbgemm.asynchronous_complete_cumsum(torch.tensor([2, 3])).tolist())
    """
    ran = fresh_process(script, TWIN_NPU_COUNT="0")
    assert ran.stdout == "0 [0, 2, 5]\n", ran.stdout + ran.stderr


KINDS = ("of another torch", "not a library", "absent")


def broken_libraries(folder: Path, kind: str) -> str:
    """What the warning has to say."""
    if kind == "of another torch":
        for name in ("libgr_ops.so", "libfbgemm_npu_api.so"):
            shutil.copy(gr_ops.library_directory() / name, folder)
        (folder / "built_with.json").write_text(json.dumps({"torch": "2.5.1+cpu", "torch_npu": "2.5.1"}))
        return "was built for torch 2.5.1+cpu, here is 2.6.0"
    if kind == "not a library":
        (folder / "libgr_ops.so").write_text("no ELF" * 1000)
        return "invalid ELF header"
    return "libgr_ops.so is missing; build it with"


# What is wrong decides what is said, the order of imports when: each of one with the first of the other.
@pytest.mark.parametrize(
    ("imports", "kind"),
    [
        *(("torch, fbgemm_gpu", kind) for kind in KINDS),
        *((imports, KINDS[0]) for imports in ("fbgemm_gpu, torch", "torchrec, torch")),
    ],
)
def test_a_program_goes_on_without_the_operators(fresh_process: Run, tmp_path: Path, imports: str, kind: str) -> None:
    reason = broken_libraries(tmp_path, kind)
    ran = fresh_process(f"import {imports}{STEP}", GR_OPS_LIBRARY_DIR=str(tmp_path))
    assert ran.stdout == ANSWER, ran.stderr
    (warning,) = [line for line in ran.stderr.splitlines() if "gr_ops" in line]
    assert "UserWarning: gr_ops cannot be loaded, fbgemm's operators run on the host: " in warning and reason in warning


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_asks_for_the_operators_ends(fresh_process: Run, tmp_path: Path, kind: str) -> None:
    reason = broken_libraries(tmp_path, kind)
    asked = fresh_process("import torch, gr_ops", GR_OPS_LIBRARY_DIR=str(tmp_path))
    assert asked.returncode != 0 and reason in asked.stderr, asked.stderr


def test_loading_again_changes_nothing(fresh_process: Run) -> None:
    script = """
        import torch, fbgemm_gpu, gr_ops, gr_ops_autoload
        for _ in range(2):
            gr_ops.load()
            gr_ops_autoload.load()
    """
    ran = fresh_process(textwrap.dedent(script) + STEP)
    assert ran.stdout == ANSWER and ran.stderr == "", ran.stderr


@pytest.mark.parametrize("queue", ["0", "1"])
def test_threads_that_look_names_up_at_once(fresh_process: Run, queue: str) -> None:
    script = """
        import threading, torch
        x = torch.tensor([2, 3, 1]).npu()
        results = []
        def work():
            results.append(torch.ops.mxrec.asynchronous_complete_cumsum(x).tolist())
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(results == [[0, 2, 5, 6]] * 4)
    """
    ran = fresh_process(script, TASK_QUEUE_ENABLE=queue)
    assert ran.stdout == "True\n", ran.stdout + ran.stderr


def test_the_environment_is_the_images() -> None:
    """The entry point is what this file is about: without it `import torch` would know nothing of gr_ops."""
    from importlib.metadata import entry_points

    assert "gr_ops_autoload:register" in [entry.value for entry in entry_points(group="torch.backends")]
    assert os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1"
