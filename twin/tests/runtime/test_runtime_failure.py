"""A device that failed stays failed: every later use returns the first failure until the device is reset."""

from __future__ import annotations

import pytest

from conftest import Scenario

pytestmark = pytest.mark.twin

FAIL = """
import threading
from acl import *
lib.twinDeviceFailure.restype = ctypes.c_char_p
call("aclrtSetDevice", 0)
s, p = stream(), malloc(64)
call("aclrtSetStreamFailureMode", s, ctypes.c_uint64(1))
def fail():
    lib.twinSetErrorMessage(b"core 7 read past the end")
    return 507015
submit(s, fail, "bad_kernel")
while lib.twinDeviceFailure(0) is None: pass
assert lib.twinDeviceFailureSeen(0) == 0  # nobody was told
"""


def test_every_use_returns_the_first_failure(scenario: Scenario) -> None:
    scenario(
        FAIL
        + """
fresh, e, host = stream(), event(), ctypes.create_string_buffer(64)
never = TASK(lambda _: 1 / 0)
uses = [
    ("aclrtMemcpy", host, ctypes.c_size_t(64), p, ctypes.c_size_t(64), D2H),
    ("aclrtMemcpyAsync", p, ctypes.c_size_t(64), host, ctypes.c_size_t(64), H2D, fresh),
    ("aclrtMemset", p, ctypes.c_size_t(64), 0, ctypes.c_size_t(64)),
    ("twinStreamSubmit", fresh, b"t", never, NO_DROP, None),
    ("aclrtSynchronizeStream", fresh), ("aclrtSynchronizeEvent", e), ("aclrtSynchronizeDevice",),
]
for _ in range(2):
    for use in uses:
        text = refused(507015, *use)
        assert "bad_kernel" in text and "core 7" in text, (use, text)
assert lib.twinDeviceFailureSeen(0) == 1
call("aclrtSetDevice", 1)  # the other device is sound
q = malloc(64)
call("aclrtMemset", q, ctypes.c_size_t(64), 0, ctypes.c_size_t(64))
call("aclrtSynchronizeDevice")
"""
    )


@pytest.mark.parametrize("reset", ["aclrtResetDevice", "aclrtDeviceTaskAbort"])
def test_a_reset_makes_the_device_sound(scenario: Scenario, reset: str) -> None:
    scenario(
        FAIL
        + f"""
call({reset!r}, 0, 0)
call("aclrtSetDevice", 0)
assert lib.twinDeviceFailure(0) is None
call("aclrtSynchronizeDevice")
ran, fresh = [], stream()
submit(fresh, lambda: ran.append(1))
call("aclrtSynchronizeStream", fresh)
assert ran == [1]
"""
    )


def test_an_abort_skips_what_is_queued_and_keeps_the_streams(scenario: Scenario) -> None:
    scenario("""
        import threading
        from acl import *
        call("aclrtSetDevice", 0)
        s, gate, started, ran = stream(), threading.Event(), threading.Event(), []
        submit(s, lambda: (started.set(), gate.wait(60)) and None)
        submit(s, lambda: ran.append("queued"))
        started.wait(60)
        assert "still running" in refused(TIMEOUT, "aclrtDeviceTaskAbort", 0, 50)
        gate.set()
        call("aclrtDeviceTaskAbort", 0, 0)
        submit(s, lambda: ran.append("after"))
        call("aclrtSynchronizeStream", s)
        assert ran == ["after"], ran
    """)


MISSING = """
import torch, torch_npu
import torch.nn.functional as F
x = torch.ones(1, 4, 4, 4).npu()
kept = torch.ones(4).npu()
torch.npu.synchronize()
def raised(use):
    try:
        use()
    except RuntimeError as error:
        return str(error)
    return ""
"""


@pytest.mark.parametrize("queue", ["1", "2"])
def test_a_failure_that_ended_the_task_queue_is_raised_by_every_later_use(scenario: Scenario, queue: str) -> None:
    """torch_npu itself raises once and then drops work without a word: the result would be whatever the memory held."""
    scenario(
        MISSING
        + """
try:
    torch_npu.npu_mish(x)
    torch.npu.synchronize()
except RuntimeError as error:
    assert "Mish" in str(error)
for use in (
    lambda: torch.ones(4).npu() + 1, lambda: (kept + 1).cpu(), lambda: kept.sum().item(), torch.npu.synchronize,
    lambda: print(kept),
) * 2:
    assert "Mish" in raised(use), raised(use)
assert (torch.ones(4).to("npu:1") + 1).tolist() == [2.0] * 4
import ctypes
runtime = ctypes.CDLL("libascendcl.so")
assert runtime.aclrtDeviceTaskAbort(0, 0) != 0  # the queue cannot be had again
""",
        TWIN_ATEN="aclnn",
        TASK_QUEUE_ENABLE=queue,
        TWIN_LOG="off",
    )


def test_without_the_queue_a_refused_call_harms_nothing(scenario: Scenario) -> None:
    scenario(
        MISSING
        + """
assert "Mish" in raised(lambda: torch_npu.npu_mish(x))
assert (torch.ones(4).npu() + 1).tolist() == [2.0] * 4
""",
        TWIN_ATEN="aclnn",
        TASK_QUEUE_ENABLE="0",
    )


@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_torch_npus_own_restart_makes_the_device_sound(scenario: Scenario, queue: str) -> None:
    scenario(
        MISSING
        + """
F.embedding(torch.tensor([7]).npu(), torch.ones(3, 4).npu())
assert "index out of range" in raised(torch.npu.synchronize)
assert "index out of range" in raised(lambda: torch.ones(4).npu() + 1)
torch_npu.npu.stop_device(0)
torch_npu.npu.restart_device(0)
assert (torch.ones(4).npu() + 1).tolist() == [2.0] * 4
torch.npu.synchronize()
""",
        TWIN_ATEN="aclnn",
        TASK_QUEUE_ENABLE=queue,
    )


def test_more_processes_than_devices_are_told_the_setting(scenario: Scenario) -> None:
    scenario("""
        from acl import *
        assert "there are 2 visible devices; set TWIN_NPU_COUNT=3" in refused(INVALID_DEVICE, "aclrtSetDevice", 2)
    """)
