"""What holds of the CPU kernels of hstu_relative alone: tiles, any table, instruction sets, threads, memory.

Blocks are of 64 queries, tiles of 96 keys, subtiles of 16, vectors of 2 to 16 queries; half a block of either side.
"""

from __future__ import annotations

import hashlib

import pytest
import torch
from hstu_relative_cases import COUNT, LEARNED, TOLERANCE, Case, found
from test_hstu_cpu import instruction_sets, run

CASES = {
    "tiles": Case((200, 97, 96, 65, 64, 17, 1, 0)),
    "contexts before later tiles": Case((150, 98), contexts=(70, 5)),
    "targets across vectors": Case((150, 100, 20), contexts=(0, 2, 1), targets=(70, 3, 0)),
    "groups of targets": Case((150, 33), targets=(90, 33), group=3),
    # The first 64 buckets end after 10 years of these tables.
    "times within years": Case((200, 97, 64, 17, 1), gap=23.0),
    "tiles within years and beyond": Case((200, 150, 70), gap=25.0),
    "times within minutes": Case((130, 65), gap=2.0, targets=(70, 3)),
    "one time for all": Case((130, 65), gap=0.0),
    "bfloat16 within years": Case((130, 20), gap=23.0, dtype=torch.bfloat16),
    "float64": Case((130, 20), targets=(9, 0), dtype=torch.float64),
    "float16": Case((130, 20), targets=(9, 0), dtype=torch.float16),
    "bfloat16": Case((130, 20), targets=(9, 0), dtype=torch.bfloat16),
}


def tables_of(case: Case, numbers: int) -> dict[str, torch.Tensor]:
    """As many numbers of time, and every second row's times unordered: buckets then go up and down."""
    t = case.tensors()
    t["time"] = torch.randn(numbers, generator=torch.Generator().manual_seed(numbers)) * 0.5
    rows = list(t["times"].split(list(case.lengths)))
    rows[1::2] = [row[torch.randperm(len(row), generator=torch.Generator().manual_seed(7))] for row in rows[1::2]]
    return {**t, "times": torch.cat(rows)}


def check(case: Case, t: dict[str, torch.Tensor]) -> None:
    for name, given, wanted in zip(("out", *LEARNED), found(case, t, "cpu"), case.expected(t), strict=True):
        error = (given.double() - wanted.detach()).norm() / wanted.norm()
        assert wanted.abs().max() > 0 and error < TOLERANCE[case.dtype], (name, float(error))


# Fewer numbers than the cells have buckets: the last one stands for all others. The first 64 stay in registers. From
# 1,025 on lanes share their sums.
@pytest.mark.parametrize("numbers", [COUNT, 64, 20, 1, 1500])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, numbers: int) -> None:
    check(CASES[name], tables_of(CASES[name], numbers))


@pytest.mark.parametrize("name", instruction_sets())
def test_every_instruction_set_agrees_with_the_definition(name: str) -> None:
    script = """
        import gr_ops
        from test_hstu_relative_cpu import CASES, check, tables_of
        for case in CASES.values():
            check(case, tables_of(case, 100))
        print(len(CASES))
    """
    assert run(script, GR_OPS_ISA=name) == f"{len(CASES)}\n"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_numbers_of_threads_give_the_same_bits(dtype: torch.dtype) -> None:
    """5 threads split the heads of the skewed batch into parts, 1 does not; 80,000 sums are added up by several."""
    digests = set()
    before = torch.get_num_threads()
    for case in (Case((900, *[1] * 10), dtype=dtype), Case((70,) * 150, targets=(20,) * 150, dtype=dtype)):
        t = tables_of(case, COUNT)
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results = found(case, t, "cpu")
            bits = b"".join(x.contiguous().view(torch.uint8).numpy().tobytes() for x in results)
            digests.add((len(case.lengths), hashlib.sha256(bits).hexdigest()))
    torch.set_num_threads(before)
    assert len(digests) == 2


PEAK = """
    import torch, gr_ops
    from pathlib import Path
    from hstu_relative_cases import CELLS, COUNT

    def resident(name):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

    def call(length):
        q, k, v = (torch.randn(length, 2, 32).requires_grad_() for _ in range(3))
        position, time = (torch.zeros(n).requires_grad_() for n in (length, COUNT))
        rest = torch.arange(length) * 3600, CELLS, torch.tensor([0, length]), None, None, 0, length, 0.01
        torch.ops.mxrec.hstu_relative(q, k, v, position, time, *rest).sum().backward()

    torch.set_num_threads(2)
    call(64)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = resident("VmRSS")
    call(6144)
    print((resident("VmHWM") - before) / (6144 * 2 * 32 * 4))
"""


def test_memory_has_no_square_of_the_length() -> None:
    """Peak in copies of q: three inputs, output, its gradient, three gradients, sums of one head per thread, and 1.5
    of what blocks leave for the gradients of the tables; the square of one sequence would be 96."""
    copies = float(run(PEAK))
    assert 7 < copies < 16, copies
