"""hstu_relative on each device against its definition in float64: values, gradients, buckets, messages, memory."""

from __future__ import annotations

import pytest
import torch
from gr_ops.time_cells import cell_starts, cells_of
from hstu_relative_cases import CELLS, COUNT, LEAST, TOLERANCE, Case, bucket, found

from conftest import HAS_NPU

CASES = {
    "causal": Case((37, 0, 20, 1)),
    "contexts and targets": Case((37, 20, 1), contexts=(3, 2, 1), targets=(5, 9, 0)),
    "groups": Case((30, 6), targets=(20, 3), group=3),
    "nothing but targets": Case((12,), targets=(12,)),
    "float16": Case((37, 20), dtype=torch.float16),
    "bfloat16": Case((37, 20), dtype=torch.bfloat16),
    "times in two floats": Case((30,), gap=44.0),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, device: str) -> None:
    case = CASES[name]
    t = case.tensors()
    for given, wanted in zip(found(case, t, device), case.expected(t), strict=True):
        error = (given.double() - wanted.detach()).norm() / wanted.norm()
        assert wanted.abs().max() > 0 and error < TOLERANCE[case.dtype], float(error)


def test_buckets_are_exact_for_all_times(device: str) -> None:
    """At each edge, one second before it, and where differences leave 64 bits: v is the unit matrix."""
    ends = [0, -1, -5, 2**24 + 1, 2**48 - 1, 2**48 + 1, 2**62, 2**63 - 1, -(2**63)]
    seconds = [*(second - back for second in LEAST[1:] for back in (0, 1)), *ends]
    for first in (0, 10**9, 2**63 - 1):
        times = [first, *((first + second + 2**63) % 2**64 - 2**63 for second in seconds)]
        n = len(times)
        q = torch.zeros(n, 1, 1, device=device)
        v = torch.eye(n, device=device)[:, None].contiguous()
        numbers = 1 + torch.arange(COUNT) / 16
        tables = (torch.zeros(n), numbers, torch.tensor(times), CELLS)
        offsets = torch.tensor([0, n], device=device)
        out = torch.ops.mxrec.hstu_relative(q, q, v, *(x.to(device) for x in tables), offsets, None, None, 0, n, 1.0)
        silu = numbers / (1 + torch.exp(-numbers))
        chosen = (out[:, 0].cpu()[..., None] - silu).abs().argmin(-1)
        wanted = torch.tensor([[bucket(a - b) for b in times] for a in times])
        assert torch.equal(chosen.tril(), wanted.tril())


def test_worked_example(device: str) -> None:
    """Scores are the bias alone: 0.5 + 1 on the diagonal, 0.25 + 2, 0.125 + 3, 0.25 + 3 below; v is the unit matrix."""
    least = torch.tensor([-(2**63), 2, 10])
    cells = cells_of((cell_starts() >= 2).long() + (cell_starts() >= 10), least)
    values = [[0.5, 0.25, 0.125], [1.0, 2.0, 3.0], [0, 5, 20], [0, 3]]
    position, time, times, offsets = (torch.tensor(x, device=device) for x in values)
    q, v = torch.zeros(3, 1, 1, device=device), torch.eye(3, device=device)[:, None].contiguous()
    position.requires_grad_()
    time.requires_grad_()
    out = torch.ops.mxrec.hstu_relative(
        q, q, v, position, time, times, cells.to(device), offsets, None, None, 0, 3, 1.0
    )
    out.sum().backward()
    expected = [
        (out[:, 0], [[1.2263617, 0, 0], [2.0354637, 1.2263617, 0], [2.9934759, 3.1286876, 1.2263617]]),
        (position.grad, [3.1238825, 2.1781882, 1.0839009]),
        (time.grad, [3.1238825, 1.0987309, 2.1633582]),
    ]
    for given, wanted in expected:
        torch.testing.assert_close(given.detach().cpu(), torch.tensor(wanted), rtol=1e-6, atol=1e-6)


WRONG = {
    "position does not fit": {"position": lambda x: x.half()},
    "position has 3 distances": {"position": lambda x: x[:3]},
    "times does not fit": {"times": lambda x: x[:4]},
    "time does not fit": {"time": lambda x: x[:0]},
    "q must be 3-D": {"q": lambda x: x[0]},
    "differs in dtype": {"v": lambda x: x.half()},
}


@pytest.mark.parametrize("words", WRONG)
def test_what_does_not_fit_is_refused(words: str, device: str) -> None:
    case = CASES["causal"]
    t = {name: x.to(device) for name, x in case.tensors().items()}
    for name, change in WRONG[words].items():
        t[name] = change(t[name])
    with pytest.raises(RuntimeError, match=f"hstu_relative: .*{words}"):
        case.call(t)


def test_time_table_of_an_npu_is_bounded(device: str) -> None:
    if device == "cpu":
        return
    case = CASES["causal"]
    t = {name: x.to(device) for name, x in case.tensors().items()}
    t["time"] = torch.zeros(513, device=device)
    with pytest.raises(RuntimeError, match="time has 513 buckets on the NPU; expected at most 512"):
        case.call(t)


def test_no_second_derivative(device: str) -> None:
    case = Case((5,))
    t = {name: x.to(device) for name, x in case.tensors().items()}
    q = t["q"].requires_grad_()
    (dq,) = torch.autograd.grad(case.call(t).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        dq.sum().backward()


# Both lengths keep all cores busy, so that the workspace is as large. Inputs, results and gradients take 9 x 256 bytes
# a token; the squares of a bias in float32 alone would differ by 7 MB.
LENGTHS = (768, 1536)
BYTES_PER_TOKEN = 4096


@pytest.mark.skipif(not HAS_NPU, reason="counts device memory")
def test_memory_has_no_square_of_the_length() -> None:
    """At peak, forward and backward, by the emulated device's count."""
    peaks = []
    for n in LENGTHS:
        q, k, v = (torch.randn(n, 8, 8, device="npu").requires_grad_() for _ in range(3))
        position, time = (torch.zeros(x, device="npu").requires_grad_() for x in (n, COUNT))
        times, offsets = torch.arange(n, device="npu") * 3600, torch.tensor([0, n], device="npu")
        rest = (times, CELLS.to("npu"), offsets, None, None, 0, n, 0.01)
        torch.npu.synchronize()
        torch.npu.empty_cache()
        torch.npu.reset_peak_memory_stats()
        before = torch.npu.memory_allocated()
        torch.ops.mxrec.hstu_relative(q, k, v, position, time, *rest).sum().backward()
        torch.npu.synchronize()
        peaks.append(torch.npu.max_memory_allocated() - before)
        assert float(time.grad.abs().sum()) > 0
    assert peaks[1] - peaks[0] < BYTES_PER_TOKEN * (LENGTHS[1] - LENGTHS[0]), peaks
