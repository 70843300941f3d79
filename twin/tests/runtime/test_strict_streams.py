"""TWIN_STREAMS=strict: uses of memory that nothing orders are errors that name both; correct programs have none."""

from __future__ import annotations

import json

import pytest
from test_runtime_torch import BASICS

from conftest import Scenario

pytestmark = pytest.mark.twin

Outcomes = dict[str, list[str]]

COPY = "'aclrtMemcpyAsync' on stream "
# What each program's error says, in both ways of running operators.
NAMED = {
    "missing_wait": ("reads what", "writes;", "wait_stream"),
    "write_after_read": ("writes what", "reads;", "wait_stream"),
    "write_after_write": ("writes what", "writes;", "wait_stream"),
    "reuse_without_record_stream": ("writes what", "reads;", "record_stream"),
    "event_recorded_too_early": ("reads what", "writes;", "wait_event"),
    "wait_for_another_event": ("reads what", "writes;", "wait_event"),
    "result_of_a_prefetch": ("reads what", f"{COPY}", "writes;", "wait_stream"),
    "host_reads_too_early": ("the host touches pinned memory", f"{COPY}", "still writes", "synchronize()"),
    "host_writes_too_early": ("the host writes pinned memory", f"{COPY}", "still reads", "synchronize()"),
    "copy_between_devices": (f"{COPY}", "of device 0 reads what", "writes;", "wait_stream"),
}
OPERATORS = {
    "override": {"fill": "'aten::fill_.Scalar' on", "neg": "'aten::neg' on", "zero": "'aten::zero_' on"},
    "aclnn": {"fill": "'aclnnInplaceFillScalar' on", "neg": "'aclnnNeg' on stream ", "zero": "'aclnnInplaceZero' on"},
}
USED = {
    "missing_wait": ("neg", "fill"),
    "write_after_read": ("fill", "neg"),
    "write_after_write": ("zero", "fill"),
    "reuse_without_record_stream": ("fill", "neg"),
    "event_recorded_too_early": ("neg", "fill"),
    "wait_for_another_event": ("neg", "fill"),
    "result_of_a_prefetch": ("neg",),
    "host_reads_too_early": (),
    "host_writes_too_early": (),
    "copy_between_devices": ("fill",),
}


@pytest.fixture(scope="module", params=["override", "aclnn"])
def outcomes(request: pytest.FixtureRequest, module_scenario: Scenario) -> tuple[str, Outcomes]:
    done = module_scenario(
        "import strict_programs; strict_programs.main()",
        TWIN_STREAMS="strict",
        TWIN_ATEN=request.param,
        TASK_QUEUE_ENABLE="0",
        TWIN_LOG="off",
    )
    return request.param, json.loads(done.stdout.splitlines()[-1])  # torch_npu may print, too


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_missing_wait_is_named(name: str, outcomes: tuple[str, Outcomes]) -> None:
    mode, found = outcomes
    text = found[name][1]
    for part in (*NAMED[name], *(OPERATORS[mode][operator] for operator in USED[name]), "TWIN_STREAMS=strict"):
        assert part in text, text


def test_the_repaired_program_passes(outcomes: tuple[str, Outcomes]) -> None:
    assert {name: texts[0] for name, texts in outcomes[1].items()} == dict.fromkeys(NAMED, "")


# The programs of the other tests of streams, tensors and pinned memory.
@pytest.mark.parametrize(("queue", "aten"), [("1", "override"), ("2", "aclnn")])
def test_correct_programs_pass(scenario: Scenario, queue: str, aten: str) -> None:
    scenario(BASICS, TASK_QUEUE_ENABLE=queue, TWIN_ATEN=aten, TWIN_STREAMS="strict")


def test_with_a_task_queue_the_next_synchronise_raises(scenario: Scenario) -> None:
    program = """
        import torch, torch_npu
        side = torch.npu.Stream()
        source = torch.ones(1000).pin_memory()
        with torch.npu.stream(side):
            x = source.to("npu", non_blocking=True)
        y = torch.empty(1000, device="npu")
        y.copy_(x)
        torch.npu.synchronize()
    """
    done = scenario(program, code=1, TASK_QUEUE_ENABLE="1", TWIN_STREAMS="strict")
    assert "RuntimeError" in done.stderr
    assert "nothing orders two uses of the memory" in done.stderr


def test_copies_of_the_host_are_uses_too(scenario: Scenario) -> None:
    scenario(
        """
        from acl import *
        import threading
        call("aclrtSetDevice", 0)
        s, e, gate = stream(), event(), threading.Event()
        x, host = malloc(64), ctypes.create_string_buffer(64)
        pinned = create("aclrtMallocHost", ctypes.c_size_t(64))
        call("aclrtMemcpyAsync", x, 64, pinned, 64, H2D, s)
        call("aclrtRecordEvent", e, s)
        for function, arguments in {
            "aclrtMemcpy": (host, 64, x, 64, D2H),
            "aclrtMemset": (x, 64, 0, 64),
        }.items():
            text = refused(500003, function, *arguments)
            assert f"'{function}' on the host" in text and "'aclrtMemcpyAsync' on stream 0 of device 0 writes" in text
            call("aclrtMemcpyAsync", x, 64, pinned, 64, H2D, s)
        assert "'aclrtFree' on the host writes" in refused(500003, "aclrtFree", x)
        call("aclrtSynchronizeStream", s)
        call("aclrtFree", x)
    """,
        TWIN_STREAMS="strict",
    )


def test_an_unknown_mode_is_refused(scenario: Scenario) -> None:
    scenario(
        """
        from acl import *
        assert "TWIN_STREAMS='strickt' is not one of free strict" in refused(100000, "aclInit", None)
    """,
        TWIN_STREAMS="strickt",
    )
