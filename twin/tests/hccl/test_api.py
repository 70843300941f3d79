"""libhccl's C interface, without torch: values against numpy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hccl_api import E_NOT_SUPPORT, E_PARA, E_PTR
from launch import run_ranks

pytestmark = pytest.mark.twin


# 3 ranks: parts that do not divide evenly; 4: more than two links per rank; 1: no link at all.
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("worker", ["reductions", "large_reductions", "movement"])
def test_values(worker: str, size: int, tmp_path: Path) -> None:
    for outcome in run_ranks(worker, size, tmp_path):
        assert outcome.found == "ok", outcome.output


@pytest.mark.parametrize("size", [2, 4])
def test_point_to_point(size: int, tmp_path: Path) -> None:
    for outcome in run_ranks("point_to_point", size, tmp_path):
        assert outcome.found == "ok", outcome.output


@pytest.mark.parametrize("worker", ["half_conversion", "sent_before_exit"])
def test_pair(worker: str, tmp_path: Path) -> None:
    for outcome in run_ranks(worker, 2, tmp_path):
        assert outcome.found == "ok", outcome.output


def test_what_an_atlas_does_not_reduce_is_refused(tmp_path: Path) -> None:
    """HcclAllReduce's public documentation: no unsigned types, no doubles, and no product of int16 and bfp16."""
    refused = ("uint8 by sum", "uint16 by sum", "uint32 by sum", "uint64 by sum", "fp64 by sum")
    refused += ("int16 by prod", "bfp16 by prod")
    calls = ("HcclAllReduce", "HcclReduce", "HcclReduceScatter", "HcclReduceScatterV")
    for outcome in run_ranks("no_such_reductions", 2, tmp_path):
        assert outcome.found is not None, outcome.output
        assert [code for *_, code, _ in outcome.found] == [E_NOT_SUPPORT] * len(refused) * len(calls)
        expected = [(call, f"Atlas A2 and A3 do not reduce {what}") for what in refused for call in calls]
        for (_, _, _, _, text), (call, reason) in zip(outcome.found, expected, strict=True):
            assert text.startswith(f"{call}") and reason in text


def test_both_ranks_in_one_process(tmp_path: Path) -> None:
    (outcome,) = run_ranks("one_process", 1, tmp_path)
    assert outcome.found == "ok", outcome.output


def test_communicators_progress_independently(tmp_path: Path) -> None:
    first, second = run_ranks("independent_communicators", 2, tmp_path)
    assert first.found is not None, first.output
    assert first.found == second.found
    assert len(set(first.found)) == 2


def test_names_and_capability(tmp_path: Path) -> None:
    first, second = run_ranks("names", 2, tmp_path)
    assert first.found is not None, first.output
    named, plain, capability, async_error = first.found
    assert first.found == second.found
    assert named == "group_name_7"
    assert plain.startswith("twin-p")
    assert (capability, async_error) == (3, 0)


def test_bad_arguments_are_refused_with_their_reason(tmp_path: Path) -> None:
    (outcome,) = run_ranks("refused", 1, tmp_path)
    expected = [
        (E_PARA, "sendBuf with 32 bytes is not within one allocation of device memory"),
        (E_PARA, "sendBuf with 4398046511104 bytes is not within one allocation"),
        (E_PTR, "recvBuf is null"),
        (E_PARA, "data type 12 is unknown"),
        (E_PARA, "reduction 4 is unknown"),
        (E_PARA, "unknown or already destroyed"),
        (E_PTR, "comm is null"),
        (E_PARA, "root 1 is not among the 1 ranks"),
        (E_PARA, "cannot send to itself"),
        (E_PARA, "sendCount 2 is not this rank's part of 1"),
        (E_PARA, "was not made by this version"),
        (E_NOT_SUPPORT, "of one host and network namespace"),
        (E_PARA, "rank 2 of 2 ranks"),
        (E_PARA, "option 0 with 7"),
    ]
    assert outcome.found is not None, outcome.output
    assert len(outcome.found) == len(expected)
    for (function, code, text), (wanted, reason) in zip(outcome.found, expected, strict=True):
        assert (code, reason in text) == (wanted, True), (function, code, text)
        assert text.startswith(function)
