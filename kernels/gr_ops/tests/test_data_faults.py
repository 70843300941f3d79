"""What only the device sees: kernels record it, and the next wait that happens anyway raises it.

Wrong data comes from the tests of each operator's arguments; the values in messages are compared with the CPU's.
"""

import json
import re
from collections.abc import Callable

import pytest
import test_embedding_validation
import torch
from embedding_cases import SUM
from test_same_faults import CASES, IN_DEVICE_MEMORY, message

from conftest import HAS_NPU

pytestmark = pytest.mark.skipif(not HAS_NPU, reason="kernels of the NPU record faults, the CPU raises at once")

# Of these MXREC_CHECK=1 alone knows. The kernel gets one of the two target counts. Prefix sums wrap around and a gather
# gives 0 for what x does not have, both by their contracts (docs/operators.md).
WITHOUT_RECORDS = {
    "hstu_validation: target counts disagree",
    "validation: overflow",
}
AT_THE_CALL = {"permute: absurd length"}  # the host reads the sum, and no memory is asked for it
NAMES = [
    name
    for module in ("hstu_validation", "validation", "permute", "bounds")
    for name in (f"{module}: {case}" for case in IN_DEVICE_MEMORY[module])
    if name not in WITHOUT_RECORDS | AT_THE_CALL
]
OPERATORS = (
    r"(HstuDenseForward|JaggedToPaddedDense|DenseToJagged|SplitEmbeddingCodegenForwardUnweighted|Permute2dSparseData"
    r"|Permute2dSparseDataGrad|BoundsCheckIndices) \("
)


def raised_at_synchronize(call: Callable[[], object]) -> str:
    """The message, once: the call itself and later waits raise nothing."""
    torch.npu.synchronize()
    call()
    with pytest.raises(RuntimeError) as raised:
        torch.npu.synchronize()
    torch.npu.synchronize()
    text = str(raised.value).split("\nException raised from")[0]
    assert re.match(OPERATORS, text) and text.endswith("MXREC_CHECK=1 raises at the call itself"), text
    return text


def values_of(text: str) -> int:
    """What is wrong: of two counts their sum; of a limit that the caller gave the row that is longer."""
    found = re.findall(r"longest row \((\d+)", text) or re.findall(r"got ([-\d +]+)", text)
    return sum(int(number) for number in re.findall(r"-?\d+", found[0]))


@pytest.mark.parametrize("name", NAMES)
def test_the_next_synchronize_raises(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MXREC_CHECK", raising=False)
    module, call = CASES[name]
    on_cpu = message((module, call), "cpu", monkeypatch)
    monkeypatch.setattr(module, "DEVICE", "npu:0")
    on_npu = raised_at_synchronize(call)
    if name.startswith(("permute:", "bounds:")):  # the very words
        assert on_npu.split("\n")[0].split("): ")[1] == on_cpu.split(": ", 1)[1]
    elif "decreas" not in on_cpu:
        assert values_of(on_npu) == values_of(on_cpu), (on_npu, on_cpu)


@pytest.mark.parametrize("name", AT_THE_CALL)
def test_what_the_host_reads_anyway_raises_at_the_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MXREC_CHECK", raising=False)
    assert message(CASES[name], "npu:0", monkeypatch) == message(CASES[name], "cpu", monkeypatch)


@pytest.mark.parametrize(("total", "rows"), [(37, 12), (1, 0)])
def test_a_sum_that_no_permutation_has_raises_at_the_call(total: int, rows: int) -> None:
    """Three copies of at most 12 rows each."""
    permute, lengths = torch.tensor([2, 0, 1]).npu(), torch.tensor([[2, 3], [1, 4], [0, 2]]).npu()
    lengths = lengths if rows else torch.zeros_like(lengths)
    with pytest.raises(RuntimeError, match=rf"sum of the permuted lengths \({rows}\), got {total}"):
        torch.ops.mxrec.permute_2D_sparse_data(permute, lengths, torch.arange(rows).npu(), None, total)


def test_a_negative_length_in_a_sound_sum() -> None:
    """Of a feature that no copy takes: every length is looked at."""
    permute, lengths = torch.tensor([1]).npu(), torch.tensor([[2, 3], [1, 4], [-1, 3]]).npu()
    text = raised_at_synchronize(
        lambda: torch.ops.mxrec.permute_2D_sparse_data(permute, lengths, torch.arange(12).npu(), None, 5)
    )
    assert "expected lengths >= 0, got lengths[2, 0]=-1" in text


def fatal(indices: list[int]) -> None:
    given = [torch.tensor(values).npu() for values in ([5, 3], indices, [0, 2, 3, 4, 5])]
    torch.ops.mxrec.bounds_check_indices(*given, 0, torch.zeros(1, dtype=torch.int64).npu())


def test_a_fatal_bounds_check_raises_at_synchronize() -> None:
    torch.npu.synchronize()
    fatal([0, 4, 2, 0, 2])
    torch.npu.synchronize()
    fatal([0, 5, 2, 3, 2])
    expected = r"indices\[1\] of table 0, batch 0 is out of range; expected 0 <= index < 5 or -1, got 5"
    with pytest.raises(RuntimeError, match=expected):
        torch.npu.synchronize()
    torch.npu.synchronize()


def test_a_gather_of_what_is_not_there_is_zero_and_no_fault() -> None:
    got = torch.ops.mxrec.gather_for_rank1(torch.tensor([1.5, 2.5]).npu(), torch.tensor([1, 2, -1]).npu())
    torch.npu.synchronize()
    assert got.tolist() == [2.5, 0.0, 0.0]


def test_prefix_sums_wrap_around_and_are_no_fault() -> None:
    got = torch.ops.mxrec.asynchronous_complete_cumsum(torch.tensor([2**31 - 1, 1, 1], dtype=torch.int32).npu())
    torch.npu.synchronize()
    assert got.tolist() == [0, 2**31 - 1, -(2**31), 1 - 2**31]


LOOKUPS = {
    "index too large": ({"indices": [0, 1, 2, 4]}, r"indices\[3\] is out of range; expected 0 <= value < 4, got 4"),
    "index below zero": ({"indices": [0, -1, 2, 3]}, r"indices\[1\] is out of range; expected 0 <= value < 5, got -1"),
    "first offset": ({"offsets": [1, 1, 2, 3, 4]}, r"offsets must start at 0; expected offsets\[0\]=0, got 1"),
    "last offset": ({"offsets": [0, 1, 2, 3, 3]}, r"offsets ends wrong; expected offsets\[4\]=4, got 3"),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_lookups(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MXREC_CHECK", raising=False)
    given, expected = LOOKUPS[name]
    changes = {key: torch.tensor(value, device="npu:0") for key, value in given.items()}
    with torch.no_grad():
        text = raised_at_synchronize(lambda: test_embedding_validation.lookup("npu:0", changes, pooling=SUM))
    assert re.search(expected, text), text


def jagged(offsets: list[int]) -> torch.Tensor:
    tokens = torch.ones(6, 2, 4, device="npu:0")
    return torch.ops.mxrec.hstu_jagged(tokens, tokens, tokens, seq_offset=torch.tensor(offsets).npu(), max_seq_len=6)


def test_a_read_raises_where_it_is_asked_to() -> None:
    from gr_ops import faults

    with faults.raised():
        assert jagged([0, 2, 6]).sum().item() != 0
    expected = r"seq_offset must not decrease; expected seq_offset\[2\] >= 5, got 2"
    total = jagged([0, 5, 2, 6]).sum()
    with pytest.raises(RuntimeError, match=expected), faults.raised():
        total.item()


def test_a_length_that_is_read_back_raises_what_came_before() -> None:
    jagged([1, 2, 6])
    with pytest.raises(RuntimeError, match="seq_offset must start at 0"):
        torch.ops.mxrec.dense_to_jagged(torch.ones(1, 2, 2).npu(), [torch.tensor([0, 2]).npu()])


def test_another_stream_has_records_of_its_own() -> None:
    with torch.npu.stream(torch.npu.Stream()):
        jagged([0, 2, 5])
    with pytest.raises(RuntimeError, match=r"expected seq_offset\[2\]=6, got 5"):
        torch.npu.synchronize()


def test_an_error_of_the_program_is_not_hidden() -> None:
    from gr_ops import faults

    jagged([0, 2, 5])
    with pytest.raises(ZeroDivisionError), faults.raised():
        1 / 0  # noqa: B018
    with pytest.raises(RuntimeError, match="seq_offset"):
        torch.npu.synchronize()


PROGRAM = """
    import os
    import torch, torch_npu, gr_ops
    from contextlib import nullcontext
    from gr_ops import faults

    tokens, offsets = torch.ones(6, 2, 4).npu(), torch.tensor([0, 2, 6]).npu()
    way = faults.raised if os.environ["RAISED"] == "1" else nullcontext
    for _ in range(3):
        for _ in range(5):
            result = torch.ops.mxrec.hstu_jagged(tokens, tokens, tokens, seq_offset=offsets, max_seq_len=6)
        with way():
            result.sum().item()
"""


@pytest.mark.emulated
def test_what_sound_data_costs(forked_process, tmp_path) -> None:
    """With and without, the launches and waits are the same; a read copies the records, 4 KiB, without waiting."""
    totals = []
    for raised in ("0", "1"):
        counts = tmp_path / f"{raised}.jsonl"
        done = forked_process(PROGRAM, TWIN_COUNTS=str(counts), TASK_QUEUE_ENABLE="0", RAISED=raised)
        assert done.returncode == 0, done.stderr
        totals.append(json.loads(counts.read_text().splitlines()[-1]))
    without, with_faults = totals
    assert without["launches"] == with_faults["launches"]
    assert without["waits"] == with_faults["waits"]
    copied = [[row for row in total["copies"] if row["way"] == "device_to_host"] for total in totals]
    assert sum(row["bytes"] for row in copied[1]) - sum(row["bytes"] for row in copied[0]) == 3 * 4096
    assert any(row["pinned"] and not row["blocking"] and row["bytes"] == 3 * 4096 for row in copied[1]), copied[1]


MOVES = """
    import os
    import torch, torch_npu, gr_ops
    from contextlib import nullcontext
    from gr_ops import faults

    permute, lengths, values = [torch.tensor(v).npu() for v in ([1, 0], [[2, 3], [1, 4]], list(range(10)))]
    rows, indices, offsets, batches = [torch.tensor(v).npu() for v in ([9, 9], [0, 1, 2], [0, 1, 2, 3], [0, 1, 3])]
    warning = torch.zeros(1, dtype=torch.int64).npu()
    way = faults.raised if os.environ["RAISED"] == "1" else nullcontext
    for _ in range(3):
        for _ in range(5):
            torch.ops.mxrec.permute_2D_sparse_data(permute, lengths, values, None, 10)
            torch.ops.mxrec.bounds_check_indices(rows, indices, offsets, 1, warning, None, batches, 2)
        with way():
            warning.item()
"""
LAUNCHES = {"Permute2dSparseData": 15, "AsynchronousCompleteCumsum": 30, "GatherForRank1": 15, "BoundsCheckIndices": 15}


@pytest.mark.emulated
def test_what_sound_permutations_and_batches_cost(forked_process, tmp_path) -> None:
    """One launch for a call of each, those of the starts aside; the host waits for what it reads and no more."""
    totals = []
    for raised in ("0", "1"):
        counts = tmp_path / f"{raised}.jsonl"
        done = forked_process(MOVES, TWIN_COUNTS=str(counts), TASK_QUEUE_ENABLE="0", RAISED=raised)
        assert done.returncode == 0, done.stderr
        totals.append(json.loads(counts.read_text().splitlines()[-1]))
    for total in totals:
        assert total["launches"]["custom"] == LAUNCHES
    assert totals[0]["launches"] == totals[1]["launches"] and totals[0]["waits"] == totals[1]["waits"]
    copied = [[row for row in total["copies"] if row["way"] == "device_to_host"] for total in totals]
    assert sum(row["bytes"] for row in copied[0]) == 3 * 8  # warning.item()
    assert sum(row["bytes"] for row in copied[1]) == 3 * 8 + 3 * 4096
