"""Operators on the chips that an emulated NPU can be: as they are packed for the chip, on as many cores as it has."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import HAS_NPU

pytestmark = [pytest.mark.emulated, pytest.mark.skipif(not HAS_NPU, reason="chips are the NPU's")]

CHIPS = {"Ascend910B4": (20, 40), "Ascend910B2C": (24, 48), "Ascend910_9372": (20, 40), "Ascend910_9391": (24, 48)}
PROGRAM = """
    import json
    import torch, torch_npu, gr_ops

    torch.manual_seed(0)
    lengths = torch.randint(0, 40, (300,))
    tokens, offsets = torch.randn(3, 90, 2, 16), torch.tensor([0, 25, 55, 90])

    def results(device):
        sums = torch.ops.mxrec.asynchronous_complete_cumsum(lengths.to(device))
        q, k, v = (x.to(device).requires_grad_() for x in tokens)
        out = torch.ops.mxrec.hstu_jagged(q, k, v, seq_offset=offsets.to(device), max_seq_len=40)
        return [x.detach().cpu() for x in (sums, out, *torch.autograd.grad(out.square().sum(), (q, k, v)))]

    for ours, expected in zip(results("npu"), results("cpu"), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    about = torch.npu.get_device_properties(0)
    print(json.dumps([torch.npu.get_device_name(0), about.cube_core_num, about.vector_core_num]))
"""


@pytest.mark.parametrize("chip", CHIPS)
def test_operators_run_on_every_chip(
    forked_process: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, chip: str
) -> None:
    counts = tmp_path / "counts.jsonl"
    done = forked_process(PROGRAM, TWIN_NPU_SOC=chip, TWIN_COUNTS=str(counts), TASK_QUEUE_ENABLE="0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [chip, *CHIPS[chip]]
    launched = json.loads(counts.read_text().splitlines()[-1])["launches"]["custom"]
    assert launched == {"AsynchronousCompleteCumsum": 1, "HstuDenseForward": 1, "HstuDenseBackward": 1}
