"""TWIN_COMPUTE=off: launches, copies and memory of any size are counted, and nothing is computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Scenario

pytestmark = pytest.mark.twin

IDLE = {"TWIN_COMPUTE": "off", "TWIN_ATEN": "aclnn", "TASK_QUEUE_ENABLE": "0", "TWIN_NPU_MEMORY": str(64 << 30)}
# 40 GB on the device, of which the host must not hold a tenth.
LARGE = """
    import resource, torch, torch_npu
    x = torch.ones(100_000, 100_000, dtype=torch.float16, device="npu")
    y = (x * 2 + 1)[:3, :3]
    z = torch.full((5,), 7.0).npu() + 1
    print(y.tolist(), z.tolist(), z.sum().item(), torch.npu.max_memory_allocated() >> 30)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20
"""
BEYOND = """
    import torch, torch_npu
    x = torch.empty(100_000, 200_000, dtype=torch.float16, device="npu")
    try:
        x + 1
    except RuntimeError as error:
        print("out of memory" in str(error))
"""


def test_values_are_zeros_and_memory_is_counted(scenario: Scenario) -> None:
    printed = scenario(LARGE, **IDLE).stdout.splitlines()[-1]
    assert printed == f"{[[0.0] * 3] * 3} {[0.0] * 5} 0.0 55"


def test_what_does_not_fit_is_refused(scenario: Scenario) -> None:
    assert scenario(BEYOND, **IDLE).stdout.splitlines()[-1] == "True"


def test_launches_and_copies_are_counted(scenario: Scenario, tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    scenario(LARGE, **IDLE, TWIN_COUNTS=str(path))
    (total,) = map(json.loads, path.read_text().splitlines())
    assert total["launches"]["aclnn"]["aclnnMuls"] == 1 and total["launches"]["aclnn"]["aclnnAdds"] == 2
    assert {row["way"] for row in total["copies"]} == {"host_to_device", "device_to_host"}


def test_the_override_computes_on_the_host_and_refuses(scenario: Scenario) -> None:
    done = scenario("import torch, torch_npu; torch.ones(1).npu()", code=1, TWIN_COMPUTE="off")
    assert "TWIN_COMPUTE='off' is not possible without TWIN_ATEN=aclnn" in done.stderr + done.stdout
