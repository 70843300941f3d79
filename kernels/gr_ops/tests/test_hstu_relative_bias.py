"""Time buckets and the relative bias against loops over cells in Python, and gradients against sums over cells."""

import pytest
import torch

LENGTHS = [[1], [5, 0, 3], [40, 33, 33, 7, 2]]
# Candidates at the end, and contextual tokens that see all: (history of each sequence or None, contexts).
VIEWS = ["causal", "targets", "contexts"]
THRESHOLDS = torch.tensor([-(2**63), 2, 10, 100, 5000])
POSITIONS = 40


def case(lengths: list[int], view: str, ascending: bool = True):
    generator = torch.Generator().manual_seed(sum(lengths))
    times = [torch.randint(0, 6000, (n,), generator=generator) for n in lengths]
    times = torch.cat([t.sort().values if ascending else t for t in times])
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    history = torch.tensor([n - n // 3 for n in lengths]) if view == "targets" else None
    return times, offsets, history, 2 if view == "contexts" else 0


def cells(lengths: list[int], times: torch.Tensor, history: torch.Tensor | None, contexts: int):
    """(b, q, k, distance, bucket) of every cell that a query may see."""
    start = 0
    for b, n in enumerate(lengths):
        for q in range(n):
            for k in range(n if q < contexts else q + 1):
                h = n if history is None else int(history[b])
                seconds = int(times[start + q]) - int(times[start + k])
                bucket = max(t for t in range(len(THRESHOLDS)) if seconds >= int(THRESHOLDS[t]))
                yield b, q, k, max(min(q, h) - min(k, h), 0), bucket
        start += n


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("ascending", [True, False])
def test_values_and_gradients(lengths: list[int], view: str, dtype: torch.dtype, ascending: bool) -> None:
    times, offsets, history, contexts = case(lengths, view, ascending)
    side = max(lengths)
    buckets = torch.ops.mxrec.hstu_time_buckets(times, offsets, THRESHOLDS, side, contexts)
    position, time = (torch.randn(n, dtype=dtype, requires_grad=True) for n in (POSITIONS, len(THRESHOLDS)))
    bias = torch.ops.mxrec.hstu_relative_bias(position, time, buckets, offsets, history, contexts)
    factor = torch.randn_like(bias)
    (bias * factor).sum().backward()

    wanted = torch.zeros(len(lengths), 1, side, side, dtype=torch.float64)
    of_position, of_time = torch.zeros(POSITIONS, dtype=torch.float64), torch.zeros(len(THRESHOLDS)).double()
    for b, q, k, distance, bucket in cells(lengths, times, history, contexts):
        assert int(buckets[b, q, k]) == bucket
        wanted[b, 0, q, k] = float(position[distance]) + float(time[bucket])
        of_position[distance] += float(factor[b, 0, q, k])
        of_time[bucket] += float(factor[b, 0, q, k])
    limit = 1e-5 if dtype == torch.float32 else 1e-12
    for given, expected in ((bias, wanted), (position.grad, of_position), (time.grad, of_time)):
        torch.testing.assert_close(given.detach().double(), expected, rtol=limit, atol=limit * 10)


def test_sums_have_the_same_bits_on_any_number_of_threads() -> None:
    lengths = list(range(60, 20, -1))
    times, offsets, _, _ = case(lengths, "causal")
    buckets = torch.ops.mxrec.hstu_time_buckets(times, offsets, THRESHOLDS, 60)
    position, time, grad = torch.randn(60), torch.randn(5), torch.randn(len(lengths), 1, 60, 60)
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(torch.ops.mxrec.hstu_relative_bias_backward(grad, position, time, buckets, offsets))
    for one, two in zip(*found):
        assert one.equal(two)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"position": torch.zeros(2)}, "position has 2 entries; expected one for each distance in sequences of 3"),
        # whose thread is first:
        ({"time": torch.zeros(2)}, r"a bucket of sequence [01], query 0 out of range; expected 0 to 1"),
        ({"offsets": torch.tensor([0, 4, 5])}, "sequence 0 has 4 tokens; expected 0 to 3"),
        ({"offsets": torch.tensor([1, 3, 5])}, "offsets must start at 0"),
        ({"offsets": torch.tensor([0, 3])}, "offsets has 2 entries"),
        ({"history": torch.tensor([4, 0])}, r"history\[0\]=4 out of range; expected 0 to 3"),
        ({"buckets": torch.zeros(2, 3, 3)}, "buckets has an unsupported dtype; expected int16"),
        ({"contexts": -1}, "contexts must not be negative"),
    ],
)
def test_refusals(change: dict, message: str) -> None:
    arguments = {
        "position": torch.zeros(3),
        "time": torch.zeros(5),
        "buckets": torch.full((2, 3, 3), 2, dtype=torch.int16),
        "offsets": torch.tensor([0, 3, 5]),
        "history": None,
        "contexts": 0,
    }
    with pytest.raises(RuntimeError, match=f"hstu_relative_bias: {message}"):
        torch.ops.mxrec.hstu_relative_bias(**arguments | change)
