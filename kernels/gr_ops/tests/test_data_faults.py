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

# Of these MXREC_CHECK=1 alone knows: the kernel gets one of the two target counts; prefix sums leave no records yet.
WITHOUT_RECORDS = {"hstu_validation: target counts disagree", "validation: overflow"}
NAMES = [
    name
    for module in ("hstu_validation", "validation")
    for name in (f"{module}: {case}" for case in IN_DEVICE_MEMORY[module])
    if name not in WITHOUT_RECORDS
]
OPERATORS = r"(HstuDenseForward|JaggedToPaddedDense|DenseToJagged|SplitEmbeddingCodegenForwardUnweighted) \("


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
    if "decreas" not in on_cpu:
        assert values_of(on_npu) == values_of(on_cpu), (on_npu, on_cpu)


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


def test_what_sound_data_costs(fresh_process, tmp_path) -> None:
    """With and without, the launches and waits are the same; a read copies the records, 4 KiB, without waiting."""
    totals = []
    for raised in ("0", "1"):
        counts = tmp_path / f"{raised}.jsonl"
        done = fresh_process(PROGRAM, TWIN_COUNTS=str(counts), TASK_QUEUE_ENABLE="0", RAISED=raised)
        assert done.returncode == 0, done.stderr
        totals.append(json.loads(counts.read_text().splitlines()[-1]))
    without, with_faults = totals
    assert without["launches"] == with_faults["launches"]
    assert without["waits"] == with_faults["waits"]
    copied = [[row for row in total["copies"] if row["way"] == "device_to_host"] for total in totals]
    assert sum(row["bytes"] for row in copied[1]) - sum(row["bytes"] for row in copied[0]) == 3 * 4096
    assert any(row["pinned"] and not row["blocking"] and row["bytes"] == 3 * 4096 for row in copied[1]), copied[1]
