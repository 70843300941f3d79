"""The kernels for Hopper against the formulas in float64; benchmarks/results/hstu-attention-tests.md has a run.

Without such a GPU nothing here can run: Gluon has no interpreter. What they visit is tested without one
(test_hopper_tile_ranges.py), and so is who takes what (test_paths.py).
"""

import dataclasses
import itertools

import pytest
import torch
from gr_ops.cuda import attention, paths
from gr_ops.cuda.problem import Problem

HOPPER = torch.cuda.is_available() and paths.machine(0).capability == paths.HOPPER and paths.machine(0).tested
pytestmark = pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU with the versions in gr_ops/cuda/paths.py")
# 2^-9 and 2^-12 are half the last bit; two roundings, of weights and of the result, and sums in between.
BOUND = {torch.bfloat16: 3.2e-3, torch.float16: 5e-4}
# Rows of none, of one token, of whole tiles, of a part of one, of many.
LENGTHS = (0, 700, 129, 1, 64, 513, 128)
MASKS = {
    "causal": {},
    "one length": {"lengths": (300, 300, 300)},
    "whole tiles": {"lengths": (256, 256)},
    "alpha": {"alpha": 0.3},
    "contexts": {"contexts": (0, 130, 3, 1, 64, 5, 0)},
    "targets": {"targets": (0, 150, 3, 1, 0, 1, 128), "group": 1},
    "groups": {"targets": (0, 250, 3, 0, 0, 130, 10), "contexts": (0, 70, 20, 0, 2, 0, 0), "group": 7},
    "a window": {"window": 50},
    "a wide window": {"window": 400},
    "a window, contexts and targets": {
        "window": 90,
        "min_full": 40,
        "contexts": (0, 20, 3, 0, 0, 70, 0),
        "targets": (0, 60, 2, 1, 0, 9, 0),
    },
}


def visible(n, contexts, targets, group, window, whole):
    """[n, n] as the documents of hstu_jagged define it."""
    i, j = torch.arange(n, device="cuda")[:, None], torch.arange(n, device="cuda")[None, :]
    history = n - targets
    if not window:
        same = (i - history).div(group, rounding_mode="floor") == (j - history).div(group, rounding_mode="floor")
        hidden = (i >= history) & (j >= history) & ~same
        return ((j <= i) & ~hidden) | ((i < contexts) & (j < history))
    most = history if contexts == 0 else n - contexts + 1 - targets

    def folded(position):
        return position.clamp(max=most) if contexts == 0 else (position - contexts + 1).clamp(min=0, max=most)

    apart = folded(i) - folded(j)
    seen = ((i == j) | (apart > 0)) & ((apart <= window) | ((whole > 0) & (folded(i) >= most - whole)))
    return seen | ((folded(i) == 0) & (folded(j) < most)) if contexts else seen


class Sample:
    def __init__(
        self, dim=128, dtype=torch.bfloat16, lengths=LENGTHS, heads=2, strided=True, index=torch.int64, seed=0, **masks
    ):
        self.lengths, self.masks = lengths, masks
        generator = torch.Generator("cuda").manual_seed(seed)
        total = sum(lengths)
        # As a model's fused projection gives them: u, v, q, k of one product.
        parts = torch.randn(total, 4 * heads * dim, device="cuda", generator=generator).to(dtype)
        self.q, self.k, self.v = (
            parts[:, n * heads * dim : (n + 1) * heads * dim].unflatten(1, (heads, dim)) for n in (2, 3, 1)
        )
        if not strided:
            self.q, self.k, self.v = (x.contiguous() for x in (self.q, self.k, self.v))
        self.grad = torch.randn(total, heads, dim, device="cuda", generator=generator).to(dtype)
        self.index = index

    def problem(self):
        def on_gpu(counts):
            return None if counts is None else torch.tensor(counts, dtype=self.index, device="cuda")

        masks = dict(self.masks)
        return Problem(
            q=self.q,
            k=self.k,
            v=self.v,
            offsets=on_gpu([0, *itertools.accumulate(self.lengths)]),
            longest=max(self.lengths),
            scale=1 / max(self.lengths),
            contexts=on_gpu(masks.pop("contexts", None)),
            targets=on_gpu(masks.pop("targets", None)),
            **masks,
        )

    def expected(self, p):
        """Output, dq, dk, dv."""
        found = [torch.zeros(x.shape, dtype=torch.float64, device="cuda") for x in (self.v, self.q, self.k, self.v)]
        begin = 0
        for row, n in enumerate(self.lengths):
            own = slice(begin, begin + n)
            begin += n
            q, k, v, grad = (x[own].double().transpose(0, 1) for x in (self.q, self.k, self.v, self.grad))
            counts = [self.masks[name][row] if name in self.masks else 0 for name in ("contexts", "targets")]
            seen = visible(n, *counts, p.group, p.window, p.min_full)
            score = q @ k.transpose(1, 2) * p.alpha
            at = torch.sigmoid(score)
            weight = torch.where(seen, score * at * p.scale, 0.0)
            of_weight = grad @ v.transpose(1, 2) * p.scale
            of_score = torch.where(seen, of_weight * at * (1 + score * (1 - at)) * p.alpha, 0.0)
            products = (weight @ v, of_score @ k, of_score.transpose(1, 2) @ q, weight.transpose(1, 2) @ grad)
            for out, product in zip(found, products):
                out[own] = product.transpose(0, 1)
        return found

    def found(self, p):
        """The same from the kernels, over memory full of NaN."""
        outs = [torch.full(self.grad.shape, torch.nan, dtype=self.q.dtype, device="cuda") for _ in range(4)]
        assert paths.hopper(p) is not None
        attention.attend(p, outs[0])
        attention.gradients(p, self.grad, *outs[1:])
        return outs

    def check(self):
        p = self.problem()
        for name, found, right in zip(("output", "dq", "dk", "dv"), self.found(p), self.expected(p)):
            error = float((found.double() - right).norm() / right.norm())
            assert error < BOUND[found.dtype], (name, error)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("dim", [32, 40, 64, 72, 96, 128, 136, 192, 256])
def test_both_directions(dim, dtype, name):
    Sample(dim, dtype, **MASKS[name]).check()


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_drawn_batches(dim, seed):
    """Lengths, counts, windows and heads by chance; 0 to 40 rows."""
    draw = torch.Generator().manual_seed(seed)

    def number(most):
        return int(torch.randint(0, most + 1, (1,), generator=draw))

    lengths = tuple(number(600) if number(4) else 0 for _ in range(1 + number(40))) + (1,)
    masks = {}
    if number(1):
        masks["targets"] = tuple(number(n) if number(1) else 0 for n in lengths)
        masks["group"] = 1 + number(5)
    if number(1):
        masks["contexts"] = tuple(number(n - t) for n, t in zip(lengths, masks.get("targets", [0] * len(lengths))))
    if number(1):
        masks |= {"window": 1 + number(300), "min_full": number(1) * number(200), "group": 1}
    Sample(dim, (torch.bfloat16, torch.float16)[seed % 2], lengths, 1 + number(3), seed=seed, **masks).check()


@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("name", ["causal", "groups"])
def test_layouts(dim, name):
    """Contiguous; offsets of 32 bits; and addresses that TMA cannot take, which are copied."""
    Sample(dim, strided=False, **MASKS[name]).check()
    Sample(dim, index=torch.int32, **MASKS[name]).check()
    sample = Sample(dim, **MASKS[name])
    wide = torch.zeros(sample.q.shape[0], sample.q.shape[1] * dim + 3, dtype=sample.q.dtype, device="cuda")
    moved = wide[:, 3:].unflatten(1, sample.q.shape[1:])
    moved.copy_(sample.q)
    sample.q = moved
    sample.check()


@pytest.mark.parametrize("dim", [64, 128, 256])
def test_long_rows(dim):
    """Of 8,000 tokens, one length and ragged."""
    Sample(dim, lengths=(8000, 8000), heads=1).check()
    Sample(dim, lengths=(8000, 3, 5000), heads=1, targets=(300, 0, 5), contexts=(7, 1, 200)).check()


@pytest.mark.parametrize("dim", [40, 128, 192])
@pytest.mark.parametrize("name", ["causal", "groups", "a window"])
@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_a_row_knows_nothing_of_its_neighbours(dim, name, bad):
    """What is infinite in one row is not seen in another, though tiles of a row reach over its end."""
    sample = Sample(dim, **MASKS[name])
    offsets = [0, *itertools.accumulate(sample.lengths)]
    right = sample.expected(sample.problem())
    for row in (2, 5):
        for x in (sample.q, sample.k, sample.v, sample.grad):
            x[offsets[row] : offsets[row + 1]] = bad
    for found, whole in zip(sample.found(sample.problem()), right):
        for row in (1, 3, 4, 6):
            own = slice(offsets[row], offsets[row + 1])
            error = float((found[own].double() - whole[own]).norm() / whole[own].norm())
            assert error < 2 * BOUND[found.dtype], (row, error)


@pytest.mark.parametrize(("dim", "results"), [(128, 1), (256, 4)])
def test_the_same_bits_every_time(dim, results):
    """Of outputs; of wide heads' gradients too, so that they are taken with deterministic algorithms."""
    sample = Sample(dim, lengths=(1000, 300, 1) * 20, heads=4)
    p = dataclasses.replace(sample.problem(), deterministic=dim > 128)
    first = sample.found(p)[:results]
    for _ in range(5):
        assert all(torch.equal(x, y) for x, y in zip(first, sample.found(p)))


def test_streams_do_not_share_their_counter():
    samples = [Sample(lengths=(900, 400, 20) * 10, heads=2, seed=n) for n in range(2)]
    right = [sample.expected(sample.problem()) for sample in samples]
    problems = [sample.problem() for sample in samples]
    torch.cuda.synchronize()
    streams, results = [torch.cuda.Stream() for _ in samples], [None, None]
    for _ in range(20):
        for n, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                results[n] = samples[n].found(problems[n])
    torch.cuda.synchronize()
    for found, expected in zip(results, right):
        for x, y in zip(found, expected):
            assert float((x.double() - y).norm() / y.norm()) < BOUND[x.dtype]


@pytest.mark.parametrize("dim", [128, 256])
@pytest.mark.parametrize("lengths", [(300, 50, 150), (200, 200, 200)])
@pytest.mark.parametrize("name", ["causal", "groups", "a window"])
def test_offsets_and_counts_that_lie_touch_no_other_memory(name, lengths, dim):
    """Guards around what is written stay, and the kernels end; the numbers are anything."""
    sample = Sample(dim, lengths=lengths, **{k: v for k, v in MASKS[name].items() if not isinstance(v, tuple)})
    total, heads, dim = sample.q.shape
    for offsets in ([0, 9000, 10, 400], [-70, 100, 90, 600], [500, 400, 300, 0]):
        p = sample.problem()
        p.offsets.copy_(torch.tensor(offsets))
        if name == "groups":
            p = dataclasses.replace(p, contexts=p.offsets[:3] - 90, targets=p.offsets[1:] * 2)
        guarded = [torch.full((total + 256, heads, dim), 7.0, dtype=sample.q.dtype, device="cuda") for _ in range(4)]
        outs = [x[128:-128] for x in guarded]
        attention.attend(p, outs[0])
        attention.gradients(p, sample.grad, *outs[1:])
        torch.cuda.synchronize()
        assert all((x[:128] == 7).all() and (x[-128:] == 7).all() for x in guarded)
