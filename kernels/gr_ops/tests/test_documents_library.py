"""The documents' stack loads the plugin as a library beside the packages, and imports nothing of ours."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from conftest import HAS_NPU

BUILT = os.environ.get("GR_OPS_LIBRARY_DIR")  # a CMake build folder
LIBRARY = Path(BUILT, "beside") if BUILT else Path(sysconfig.get_path("purelib"))
PROGRAM = """
import sys
import torch
torch.ops.load_library(sys.argv[1])
device = sys.argv[2]
lengths = torch.tensor([2, 3, 1, 4], dtype=torch.int32, device=device)
offsets = torch.ops.fbgemm.asynchronous_complete_cumsum(lengths)
values = torch.arange(10.0, device=device, requires_grad=True)
padded = torch.ops.fbgemm.jagged_to_padded_dense(values, [offsets], 4)
padded.sum().backward()
torch.ops.load_library(sys.argv[1])
import fbgemm_gpu, gr_ops
q = torch.ones(10, 1, 8, device=device)
attention = torch.ops.mxrec.hstu_dense(q, q, q, None, None, 0, 4, 1.0, "jagged", offsets)
print(offsets.tolist(), padded.shape, values.grad.tolist() == [1.0] * 10, attention.shape)
"""


def run(device: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", PROGRAM, str(LIBRARY / "libfbgemm_npu_api.so"), device]
    return subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)


def test_loading_the_library_is_importing_the_package() -> None:
    for device in ("cpu", "npu:0") if HAS_NPU else ("cpu",):
        ran = run(device, {})
        expected = "[0, 2, 5, 6, 10] torch.Size([4, 4]) True torch.Size([10, 1, 8])\n"
        assert ran.stdout == expected, ran.stdout + ran.stderr


def test_a_package_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    ran = run("cpu", {"GR_OPS_LIBRARY_DIR": str(tmp_path)})
    assert ran.returncode != 0 and f"{tmp_path}/libgr_ops.so is missing" in ran.stderr
