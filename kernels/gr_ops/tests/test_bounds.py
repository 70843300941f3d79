"""bounds_check_indices against the sequential algorithm of docs/operators.md, modes 0 to 6."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

FATAL, WARNING, IGNORE, NONE, V2_IGNORE, V2_WARNING, V2_FATAL = range(7)
GOLDEN = [
    ([0, 5, 2, 3, 2], [0, 2, 3, 4, 5], [0, 0, 2, 0, 2], [0, 2, 3, 4, 5], 2),
    ([0, -1, 2, -1, 2], [0, 2, 3, 4, 5], [0, -1, 2, -1, 2], [0, 2, 3, 4, 5], 0),
    ([0, -5, 2, 1, 2], [0, 2, 3, 4, 5], [0, 0, 2, 1, 2], [0, 2, 3, 4, 5], 1),
    ([0, 0, 2, 1, 2], [0, 3, 2, 4, 5], [0, 0, 2, 1, 2], [0, 3, 3, 4, 5], 1),
    ([0, 0, 2, 1, 2], [0, 2, 3, 4, 9], [0, 0, 2, 1, 2], [0, 2, 3, 4, 5], 1),
    ([0, 0, 2, 1, 2], [0, 2, 3, 4, 4], [0, 0, 2, 1, 2], [0, 2, 3, 4, 5], 1),
    ([0, 0, 2, 1, 2], [0, -2, 3, 4, 5], [0, 0, 2, 1, 2], [0, 0, 3, 4, 5], 1),
    ([0, -7, 9, 3, 2], [0, 9, 3, 4, 7], [0, 0, 0, 3, 2], [0, 5, 5, 5, 5], 6),
]


@pytest.fixture(params=["fbgemm", "mxrec"])
def ops(request: pytest.FixtureRequest):
    return getattr(torch.ops, request.param)


class Call:
    """One call; the tensors are kept, as they are updated in place."""

    def __init__(self, rows, indices, offsets, dtypes=(torch.int64, torch.int64), device="cpu", warning=10) -> None:
        self.rows = torch.tensor(rows, dtype=torch.int64).to(device)
        self.indices = torch.tensor(indices, dtype=dtypes[0]).to(device)
        self.offsets = torch.tensor(offsets, dtype=dtypes[1]).to(device)
        self.warning = torch.tensor([warning]).to(device)

    def run(self, mode: int, *more: object, ops=torch.ops.mxrec) -> tuple[list[int], list[int], int]:
        ops.bounds_check_indices(self.rows, self.indices, self.offsets, mode, self.warning, *more)
        return self.indices.tolist(), self.offsets.tolist(), int(self.warning.item())


DTYPES = [(a, b) for a in (torch.int32, torch.int64) for b in (torch.int32, torch.int64)]


@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
@pytest.mark.parametrize("row", range(len(GOLDEN)))
def test_golden(ops, device: str, row: int, dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    indices, offsets, repaired, repaired_offsets, count = GOLDEN[row]
    for mode in (WARNING, V2_WARNING):
        got = Call([5, 3], indices, offsets, dtypes, device).run(mode, ops=ops)
        assert got == (repaired, repaired_offsets, count)
    for mode in (IGNORE, V2_IGNORE):
        assert Call([5, 3], indices, offsets, dtypes, device).run(mode, ops=ops) == (repaired, repaired_offsets, 10)
    assert Call([5, 3], indices, offsets, dtypes, device).run(NONE, ops=ops) == (indices, offsets, 10)


@pytest.mark.parametrize("mode", [FATAL, V2_FATAL])
@pytest.mark.parametrize("row", range(len(GOLDEN)))
def test_fatal_raises_and_changes_nothing(ops, row: int, mode: int) -> None:
    indices, offsets, _, _, count = GOLDEN[row]
    call = Call([5, 3], indices, offsets)
    if count == 0:
        assert call.run(mode, ops=ops) == (indices, offsets, 10)
        return
    with pytest.raises(RuntimeError, match="bounds_check_indices: "):
        call.run(mode, ops=ops)
    assert (call.indices.tolist(), call.offsets.tolist(), call.warning.item()) == (indices, offsets, 10)


@pytest.mark.parametrize(
    ("indices", "offsets", "message"),
    [
        (
            [0, 5, 2, 3, 2],
            [0, 2, 3, 4, 5],
            "indices[1] of table 0, batch 0 is out of range; expected 0 <= index < 5 or -1, got 5",
        ),
        ([0, 1, 2, 2, -3], [0, 2, 3, 4, 5], "indices[4] of table 1, batch 1 is out of range; expected 0 <= index < 3"),
        (
            [0, 1, 2, 1, 2],
            [0, 3, 2, 4, 5],
            "offsets of table 0, batch 1 are wrong; expected 0 <= start <= end <= 5, got start 3 and end 2",
        ),
        ([0, 1, 2, 1, 2], [0, 2, 3, 4, 9], "expected offsets[-1] == 5 (the number of indices), got 9"),
        ([0, 1, 2, 1, 2], [1, 2, 3, 4, 5], "expected offsets[0] == 0, got 1"),
    ],
)
def test_fatal_names_the_place(indices: list[int], offsets: list[int], message: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(message)):
        Call([5, 3], indices, offsets).run(FATAL)


def test_warning_is_logged_once_for_the_first_violation(capfd: pytest.CaptureFixture[str]) -> None:
    Call([5, 3], [0, 5, 2, 3, 2], [0, 2, 3, 4, 5]).run(WARNING)
    log = capfd.readouterr().err
    assert log.count("\n") == 1
    assert "2 violations were repaired, the first: indices[1] of table 0, batch 0 is out of range" in log
    Call([5, 3], [0, 5, 2, 3, 2], [0, 2, 3, 4, 5]).run(IGNORE)
    assert capfd.readouterr().err == ""


def test_first_offset_above_zero_is_left_alone_when_repairing(device: str) -> None:
    """Rows before it belong to no bag: they are not looked at."""
    assert Call([5, 3], [99, 1, 2, 1, 2], [1, 2, 3, 4, 5], device=device).run(WARNING) == (
        [99, 1, 2, 1, 2],
        [1, 2, 3, 4, 5],
        0,
    )


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_content_on_the_cpu(data: st.DataObject) -> None:
    tables, batch = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 4))
    vbe = data.draw(st.booleans())
    sizes = [data.draw(st.integers(0, 4)) for _ in range(tables)] if vbe else [batch] * tables
    bags = [0, *np.cumsum(sizes).tolist()]
    rows = [data.draw(st.integers(0, 6)) for _ in range(tables)]
    indices = data.draw(st.lists(st.integers(-3, 8), max_size=12))
    if data.draw(st.booleans()):
        offsets = data.draw(st.lists(st.integers(-2, 14), min_size=bags[-1] + 1, max_size=bags[-1] + 1))
    else:
        offsets = sorted(data.draw(st.lists(st.integers(0, len(indices)), min_size=bags[-1], max_size=bags[-1])))
        offsets = [0, *offsets]
    expected = reference.check_bounds(rows, indices, offsets, bags)
    more = (None, torch.tensor(bags, dtype=torch.int32), max(sizes)) if vbe else ()
    dtypes = data.draw(st.sampled_from(DTYPES))
    assert Call(rows, indices, offsets, dtypes).run(WARNING, *more) == expected
    assert Call(rows, indices, offsets, dtypes).run(IGNORE, *more)[:2] == expected[:2]
    call = Call(rows, indices, offsets, dtypes)
    if expected[2] or offsets[0] != 0:
        with pytest.raises(RuntimeError, match="bounds_check_indices"):
            call.run(FATAL, *more)
        assert call.indices.tolist() == indices and call.offsets.tolist() == offsets
    else:
        assert call.run(FATAL, *more) == (indices, offsets, 10)


@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
def test_many_indices(device: str, dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 30, 7 * 64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows = [10, 1000, 1, 50, 2**31 - 1, 3, 100]
    tables = np.repeat(np.repeat(np.arange(7), 64), lengths)
    indices = (rng.random(len(tables)) * np.array(rows)[tables]).astype(np.int64)
    clean = Call(rows, indices.tolist(), offsets.tolist(), dtypes, device)
    assert clean.run(WARNING) == (indices.tolist(), offsets.tolist(), 0)
    bad = rng.choice(len(indices), 5, replace=False)
    indices[bad] = [-2, -(2**31), 2**31 - 1, 2**31 - 1, -7]
    broken = offsets.copy()
    broken[[3, 200]] = [2**31 - 1, -1]
    bags = list(range(0, 7 * 64 + 1, 64))
    for given_offsets in (offsets, broken):
        expected = reference.check_bounds(rows, indices.tolist(), given_offsets.tolist(), bags)
        call = Call(rows, indices.tolist(), given_offsets.tolist(), dtypes, device)
        assert call.run(WARNING) == expected and expected[2] >= 3


def test_one_violation_in_a_million() -> None:
    indices = torch.randint(0, 100, (1_000_000,))
    indices[777_777] = 100
    call = Call([100], [], [0, 1_000_000])
    call.indices = indices
    with pytest.raises(RuntimeError, match=re.escape("indices[777777] of table 0, batch 0 is out of range")):
        call.run(FATAL)
    call.run(WARNING)
    assert call.warning.item() == 1 and call.indices[777_777] == 0 and call.indices.max() == 99


def test_tables_of_int32_and_no_tables(device: str) -> None:
    call = Call([5, 3], [0, 5, 2, 3, 2], [0, 2, 3, 4, 5], device=device)
    call.rows = call.rows.int()
    assert call.run(IGNORE)[0] == [0, 0, 2, 0, 2]
    assert Call([], [], [0], device=device).run(WARNING) == ([], [0], 0)
    assert Call([5], [], [0], device=device).run(WARNING) == ([], [0], 0)
    assert Call([5, 3], [], [0, 0, 0], device=device).run(WARNING) == ([], [0, 0, 0], 0)


def test_weights_are_not_modified(device: str) -> None:
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).to(device)
    Call([5, 3], [0, 5, 2, 3, 2], [0, 2, 3, 4, 5], device=device).run(IGNORE, weights)
    assert weights.tolist() == [1, 2, 3, 4, 5]


DEVICE = "cpu"


def call(mode=WARNING, *more, rows=(5, 3), indices=(0, 1, 2, 0, 2), offsets=(0, 2, 3, 4, 5)) -> Call:
    result = Call(list(rows), list(indices), list(offsets), device=DEVICE)
    result.run(mode, *(m.to(DEVICE) if isinstance(m, torch.Tensor) else m for m in more))
    return result


def with_tensors(**tensors: torch.Tensor) -> Callable[[], object]:
    def action() -> None:
        c = Call([5, 3], [0, 1, 2, 0, 2], [0, 2, 3, 4, 5], device=DEVICE)
        for name, tensor in tensors.items():
            on_device = tensor.to(DEVICE)
            setattr(c, name, on_device if tensor.is_contiguous() else on_device.repeat_interleave(2)[::2])
        c.run(WARNING)

    return action


B_OFFSETS = torch.tensor([0, 2, 4], dtype=torch.int32)
BAD: dict[str, tuple[Callable[[], object], str]] = {
    "unknown mode": (lambda: call(7), "bounds_check_mode is unknown; expected 0 (FATAL)"),
    "mode below zero": (lambda: call(-1), "bounds_check_mode is unknown"),
    "unknown version": (
        lambda: call(1, None, None, -1, None, -1, -1, 3),
        "bounds_check_version is unknown; expected 1 or 2, got 3",
    ),
    "weights of another size": (lambda: call(1, torch.ones(3)), "weights size 3 is not equal to indices size 5"),
    "offsets of another size": (
        lambda: call(offsets=(0, 2, 4, 5)),
        "offsets size 4 is not equal to B (1) * T (2) + 1",
    ),
    "empty offsets": (lambda: call(offsets=()), "offsets is empty; expected B * T + 1 entries, got 0"),
    "indices without tables": (
        lambda: call(rows=(), offsets=(0,)),
        "rows_per_table is empty; expected no indices and one offset, got 5 indices and 1 offsets",
    ),
    "offsets without tables": (lambda: call(rows=(), indices=()), "rows_per_table is empty"),
    "warning of int32": (
        with_tensors(warning=torch.zeros(1, dtype=torch.int32)),
        "warning is no counter; expected one int64, got shape [1] of Int",
    ),
    "warning of two": (with_tensors(warning=torch.zeros(2, dtype=torch.int64)), "warning is no counter"),
    "float rows": (
        with_tensors(rows=torch.ones(2)),
        "rows_per_table has an unsupported dtype; expected int32 or int64",
    ),
    "short indices": (
        with_tensors(indices=torch.zeros(5, dtype=torch.int16)),
        "indices has an unsupported dtype; expected int32 or int64, got Short",
    ),
    "indices of two dimensions": (
        with_tensors(indices=torch.zeros(1, 5, dtype=torch.int64)),
        "indices must be 1-D; expected one dimension, got shape [1, 5]",
    ),
    "strided indices": (
        with_tensors(indices=torch.zeros(10, dtype=torch.int64)[::2]),
        "indices must be contiguous because it is updated in place",
    ),
    "strided offsets": (
        with_tensors(offsets=torch.zeros(10, dtype=torch.int64)[::2]),
        "offsets must be contiguous because it is updated in place",
    ),
    "B_offsets of another size": (
        lambda: call(1, None, B_OFFSETS[:2], 2),
        "B_offsets has 2 entries; expected T + 1 = 3, got 2",
    ),
    "B_offsets that decrease": (
        lambda: call(1, None, torch.tensor([0, 5, 4], dtype=torch.int32), 2),
        "B_offsets must be non-decreasing: B_offsets[2]=4 < B_offsets[1]=5",
    ),
    "B_offsets from another batch": (
        lambda: call(1, None, B_OFFSETS + torch.tensor([0, 0, 1]), 2),
        "offsets size 5 is not equal to B_offsets[T] + 1; expected 6, got 5",
    ),
    "B_offsets without max_B": (lambda: call(1, None, B_OFFSETS), "max_B is negative"),
}


@pytest.mark.usefixtures("each_device")
@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXREC_CHECK", "1")  # contents of device tensors are looked at on request
    action, message = BAD[case]
    with pytest.raises(RuntimeError, match=re.escape(message)):
        action()


INDICES = "indices[1] of table 0, batch 0 is out of range; expected 0 <= index < 5 or -1, got 5"


@pytest.mark.parametrize("mode", [FATAL, V2_FATAL])
def test_fatal_on_the_device_raises_at_once_on_request(ops, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXREC_CHECK", "1")
    for indices, offsets, _, _, count in GOLDEN:
        c = Call([5, 3], indices, offsets, device="npu:0")
        if count:
            with pytest.raises(RuntimeError, match="bounds_check_indices: .*reported by the device"):
                c.run(mode, ops=ops)
        else:
            c.run(mode, ops=ops)
        assert (c.indices.tolist(), c.offsets.tolist(), c.warning.item()) == (indices, offsets, 10)
    with pytest.raises(RuntimeError, match=re.escape(INDICES)):
        Call([5, 3], [0, 5, 2, 3, 2], [0, 2, 3, 4, 5], device="npu:0").run(mode, ops=ops)
    with pytest.raises(RuntimeError, match=re.escape("expected offsets[0] == 0, got 1")):
        Call([5, 3], [0, 1, 2, 0, 2], [1, 2, 3, 4, 5], device="npu:0").run(mode, ops=ops)


def test_fatal_on_the_device_raises_when_its_report_has_arrived() -> None:
    good, bad = [0, 1, 2, 0, 2], [0, 5, 2, 3, 2]
    Call([5, 3], bad, [0, 2, 3, 4, 5], device="npu:0").run(FATAL)  # returns before the device has looked
    with pytest.raises(RuntimeError, match=re.escape(INDICES)):
        torch.ops.mxrec.raise_bounds_violations()
    torch.ops.mxrec.raise_bounds_violations()  # raised once
    Call([5, 3], bad, [0, 2, 3, 4, 5], device="npu:0").run(FATAL)
    torch.npu.current_stream().synchronize()  # torch.npu.synchronize would raise
    with pytest.raises(RuntimeError, match=re.escape(INDICES)):
        Call([5, 3], good, [0, 2, 3, 4, 5], device="npu:0").run(IGNORE)
    Call([5, 3], good, [0, 2, 3, 4, 5], device="npu:0").run(FATAL)
    torch.ops.mxrec.raise_bounds_violations()


def test_vbe_on_every_device(device: str) -> None:
    bags = torch.tensor([0, 3, 4], dtype=torch.int32).to(device)
    c = Call([5, 3], [0, 5, 2, 4, 2], [0, 2, 3, 3, 5], device=device)
    assert c.run(WARNING, None, bags, 3) == ([0, 0, 2, 0, 2], [0, 2, 3, 3, 5], 2)
