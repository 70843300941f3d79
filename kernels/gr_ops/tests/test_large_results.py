"""Results of 1 MB and more on the CPU: the memory that they take over, and what is kept of it."""

import os
import subprocess
import sys

import pytest
import torch
from hstu_relative_cases import CELLS, COUNT

ROWS = 300_000  # of int64: 2.4 MB

KEPT = """
import torch
import gr_ops

def resident():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * 4096

lengths = torch.ones(8_000_000, dtype=torch.int64)
torch.ops.mxrec.asynchronous_complete_cumsum(lengths[:1000])
before = resident()
result = torch.ops.mxrec.asynchronous_complete_cumsum(lengths)
assert resident() - before > 60e6
del result
print((resident() - before) / 1e6)
"""


def offsets(value: int) -> torch.Tensor:
    return torch.ops.mxrec.asynchronous_complete_cumsum(torch.full((ROWS,), value))


def expected(value: int) -> torch.Tensor:
    return torch.arange(ROWS + 1) * value


def test_a_later_result_takes_over_the_memory() -> None:
    first = offsets(2)
    place = first.data_ptr()
    del first
    second = offsets(3)
    assert second.data_ptr() == place
    assert second.equal(expected(3))


def test_memory_in_use_is_left_alone() -> None:
    first = offsets(2)
    view = first[100:]
    del first
    second, third = offsets(3), offsets(5)
    assert view.equal(expected(2)[100:])
    assert second.equal(expected(3))
    assert third.equal(expected(5))


def in_huge_pages(*results: torch.Tensor) -> bool:
    """Whether they start where a huge page does: malloc's blocks begin with a header."""
    return all(x.nbytes >= 1 << 20 and x.data_ptr() % (2 << 20) == 0 for x in results)


def test_attention_comes_in_kept_memory() -> None:
    count = 6000
    q, k, v = (torch.randn(count, 1, 50).requires_grad_() for _ in range(3))
    offsets = torch.arange(0, count + 1, 60)
    out = torch.ops.mxrec.hstu_dense(q, k, v, None, None, 0, 60, 0.0, "jagged", offsets)
    tables = (torch.zeros(60), torch.zeros(COUNT), torch.arange(count), CELLS)
    relative = torch.ops.mxrec.hstu_relative(q, k, v, *tables, offsets, None, None, 0, 60, 0.1)
    assert in_huge_pages(out, relative)
    for given in (out, relative):
        assert in_huge_pages(*torch.autograd.grad(given.sum(), (q, k, v)))


def test_results_can_be_resized_and_shared() -> None:
    result = offsets(2)
    result.resize_(2 * ROWS)
    assert result[: ROWS + 1].equal(expected(2))
    assert offsets(7).share_memory_().equal(expected(7))


def kept(megabytes: str) -> subprocess.CompletedProcess[str]:
    """A result of 64 MB, in a process of its own: the bound is read once. Without torch_npu, most of a start's time."""
    environment = os.environ | {"MXREC_KEPT_RESULT_MB": megabytes, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return subprocess.run([sys.executable, "-c", KEPT], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("megabytes", "least", "most"), [("0", -1, 8), ("32", -1, 8), ("128", 60, 80)])
def test_what_is_kept_is_bounded(megabytes: str, least: float, most: float) -> None:
    done = kept(megabytes)
    assert done.returncode == 0, done.stderr
    assert least < float(done.stdout) < most


@pytest.mark.parametrize("megabytes", ["abc", "-1", "", "12 ", "9" * 30])
def test_what_may_be_kept_is_a_number(megabytes: str) -> None:
    done = kept(megabytes)
    assert f"must be a number of megabytes from 0 to 1048576, got '{megabytes}'" in done.stderr


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float16, torch.float32])
@pytest.mark.parametrize("count", [4096, 32_769, 65_537, 131_073, 500_007])
def test_prefix_sums_on_several_threads(dtype: torch.dtype, count: int) -> None:
    """Around the chunks that threads take in turn: 128 KB each, shared from three of them on."""
    lengths = (torch.arange(count) % 7 - 2).to(dtype)
    threads = torch.get_num_threads()
    results = []
    try:
        for wanted in (1, 2, 3):
            torch.set_num_threads(wanted)
            results.append(torch.ops.mxrec.asynchronous_complete_cumsum(lengths))
    finally:
        torch.set_num_threads(threads)
    exact = lengths.double().cumsum(0)
    assert results[0][0] == 0
    torch.testing.assert_close(results[0][1:], exact.to(dtype), rtol=0, atol=0)
    assert results[1].equal(results[0])
    assert results[2].equal(results[0])
