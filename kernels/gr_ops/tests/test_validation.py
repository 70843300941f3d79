"""Every rule of the jagged operators' arguments: <op>: <argument> <fault>; expected <rule>, got <value>."""

from collections.abc import Callable

import pytest
import torch

DEVICE = "npu:0"


def to_dense(*arguments: object) -> torch.Tensor:
    return torch.ops.mxrec.jagged_to_padded_dense(*arguments)


def to_jagged(*arguments: object) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return torch.ops.mxrec.dense_to_jagged(*arguments)


def npu(data: object, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(data, dtype=dtype).to(DEVICE)


def values() -> torch.Tensor:
    return torch.zeros(6, 2, device=DEVICE)


def dense(batch: int = 3) -> torch.Tensor:
    return torch.zeros(batch, 4, 2, device=DEVICE)


OFF = [0, 2, 5, 6]
CASES: dict[str, tuple[Callable[[], object], str]] = {
    "lengths and offsets differ": (
        lambda: to_dense(values(), [npu(OFF)], [3, 4]),
        r"jagged_to_padded_dense: max_lengths has 2 entries but there is 1 jagged dimension; expected .*, got \[3, 4\]",
    ),
    "no offsets": (lambda: to_dense(values(), [], []), "offsets must contain at least one tensor; expected .*, got 0"),
    "no offsets to jagged": (
        lambda: to_jagged(dense(), []),
        "dense_to_jagged: offsets must contain at least one tensor",
    ),
    "six levels": (
        lambda: to_dense(values(), [npu([0, 1])] * 6, [1] * 6),
        "offsets has too many tensors; expected at most 5 jagged dimensions, got 6",
    ),
    "two-dimensional offsets": (
        lambda: to_dense(values(), [npu([OFF])], [3]),
        r"offsets\[0\] has 2 dimensions; expected: offsets\[k\] must be 1-D with B\+1 >= 1 entries, got .*4",
    ),
    "empty offsets": (
        lambda: to_dense(values(), [npu([])], [3]),
        r"offsets\[0\] is empty; expected: offsets\[k\] must be 1-D with B\+1 >= 1 entries, got 0 entries",
    ),
    "short offsets": (
        lambda: to_dense(values(), [npu(OFF, torch.int16)], [3]),
        "expected: offsets must be int32 or int64, got Short",
    ),
    "float offsets": (
        lambda: to_jagged(dense(), [npu(OFF, torch.float32)]),
        "dense_to_jagged: .*offsets must be int32 or int64, got Float",
    ),
    "mixed offsets": (
        lambda: to_dense(values(), [npu(OFF), npu([0, 1, 2, 3, 4, 5, 6], torch.int32)], [3, 3]),
        r"offsets\[1\] differs in dtype; expected that of offsets\[0\] \(Long\), got Int",
    ),
    "negative length": (
        lambda: to_dense(values(), [npu(OFF)], [-1]),
        r"max_lengths\[0\] is negative; expected: max_lengths\[k\] must be >= 0, got -1",
    ),
    "another batch": (
        lambda: to_jagged(dense(2), [npu(OFF)]),
        "dense has batch 2 but offsets describe 3 rows; expected .*, got 2",
    ),
    "dense without its levels": (
        lambda: to_jagged(torch.zeros(3, device=DEVICE), [npu(OFF)]),
        "dense has too few dimensions; expected at least 2",
    ),
    "negative total": (
        lambda: to_jagged(dense(), [npu(OFF)], -2),
        "total_L is negative; expected: total_L must be >= 0, got -2",
    ),
    "negative total of the backward": (
        lambda: torch.ops.mxrec.jagged_to_padded_dense_backward(dense(), [npu(OFF)], -2),
        "jagged_to_padded_dense_backward: total_L is negative",
    ),
    "values without a dimension": (lambda: to_dense(npu(1), [npu(OFF)], [3]), "values has no dimensions"),
    "unsupported dtype": (
        lambda: to_dense(torch.zeros(6, dtype=torch.uint32).to(DEVICE), [npu(OFF)], [3]),
        "values has an unsupported dtype; expected one of float16.*, got UInt32",
    ),
    "padding out of range": (
        lambda: to_dense(npu([1] * 6, torch.int8), [npu(OFF)], [3], 128.0),
        "padding_value is out of range; expected a value of int8, got 128",
    ),
    "padding NaN for integers": (
        lambda: to_dense(npu([1] * 6), [npu(OFF)], [3], float("nan")),
        "padding_value is out of range; expected a value of int64, got nan",
    ),
    "padding beyond int64": (lambda: to_dense(npu([1] * 6), [npu(OFF)], [3], 2.0**63), "padding_value is out of range"),
    "scalar lengths": (
        lambda: torch.ops.mxrec.asynchronous_complete_cumsum(npu(3)),
        "asynchronous_complete_cumsum: t_in must be 1-D or 2-D",
    ),
    "three-dimensional lengths": (
        lambda: torch.ops.fbgemm.asynchronous_complete_cumsum(npu([[[3]]])),
        "t_in must be 1-D or 2-D; .*got 3",
    ),
    "bool lengths": (
        lambda: torch.ops.mxrec.asynchronous_complete_cumsum(npu([True], torch.bool)),
        "t_in has an unsupported dtype; .*got Bool",
    ),
}


@pytest.mark.usefixtures("each_device")
@pytest.mark.parametrize("case", CASES)
def test_bad_arguments_are_refused(case: str) -> None:
    call, message = CASES[case]
    with pytest.raises(RuntimeError, match=message):
        call()


ELSEWHERE: dict[str, tuple[Callable[[], object], str]] = {
    "offsets elsewhere": (
        lambda: to_dense(values(), [torch.tensor(OFF)], [3]),
        r"jagged_to_padded_dense: expected offsets\[0\] on npu:0, got cpu",
    ),
    "offsets on another device": (
        lambda: to_dense(values(), [torch.tensor(OFF).to("npu:1")], [3]),
        r"expected offsets\[0\] on npu:0, got npu:1",
    ),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_tensors_on_several_devices_are_refused(case: str) -> None:
    call, message = ELSEWHERE[case]
    with pytest.raises(RuntimeError, match=message):
        call()


CHECKED: dict[str, tuple[Callable[[], object], str]] = {
    "decreasing": (
        lambda: to_dense(values(), [npu([0, 5, 2, 6])], [3]),
        r"offsets must be non-decreasing: off\[2\]=2 < off\[1\]=5",
    ),
    "decreasing to jagged": (
        lambda: to_jagged(dense(), [npu([0, 5, 2, 6])]),
        r"dense_to_jagged: offsets must be non-decreasing: off\[2\]=2 < off\[1\]=5",
    ),
    "beyond values": (lambda: to_dense(values(), [npu([0, 2, 5, 7])], [3]), "offsets end at 7 but values has 6 rows"),
    "second level too short": (
        lambda: to_dense(values(), [npu([0, 2, 3]), npu([0, 1, 3])], [2, 2]),
        r"offsets\[1\] has 3 entries; expected offsets\[0\]\[-1\] \+ 1 = 4",
    ),
    "overflow": (
        lambda: torch.ops.mxrec.asynchronous_complete_cumsum(npu([2**31 - 1, 1], torch.int32)),
        "asynchronous_complete_cumsum: cumsum overflows int32 at position 2; use int64 lengths",
    ),
}


@pytest.mark.usefixtures("each_device")
@pytest.mark.parametrize("case", CHECKED)
def test_device_data_is_checked_on_request(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, message = CHECKED[case]
    monkeypatch.setenv("MXREC_CHECK", "1")
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize(
    "offsets", [[0, 5, 2, 6], [0, 2, 5, 600], [-5, 2, 5, 6], [6, 5, 2, 0], [2**40, -(2**40), 0, 3]]
)
def test_malformed_offsets_stay_inside_memory(offsets: list[int]) -> None:
    """Unchecked, the result has the right shape and holds only input rows and padding."""
    source = torch.arange(1.0, 13.0).view(6, 2)
    padded = to_dense(source.to(DEVICE), [npu(offsets)], [3], 99.0).cpu()
    allowed = {tuple(row) for row in source.tolist()} | {(99.0, 99.0)}
    assert padded.shape == (3, 3, 2) and {tuple(row) for row in padded.view(-1, 2).tolist()} <= allowed
    jagged = torch.ops.mxrec.dense_to_jagged_forward(source.view(3, 2, 2).to(DEVICE), [npu(offsets)], 6).cpu()
    allowed = {tuple(row) for row in source.tolist()} | {(0.0, 0.0)}
    assert jagged.shape == (6, 2) and {tuple(row) for row in jagged.tolist()} <= allowed
