"""torch.ops.mxrec.hstu_* of CUDA tensors against the formulas in float64, and against what the CPU's operators do."""

import math
from dataclasses import dataclass, field

import pytest
import torch
import triton
import triton.language as tl
from gr_ops.cuda import operators
from gr_ops.cuda.relative_bias import split_times, time_bucket

from gr_model import attention
from gr_model.config import ModelConfig
from gr_model.tests import reference

ON_GPU = torch.cuda.is_available()
BUCKETS, POSITIONS = 40, 300


@dataclass
class Case:
    """Rows of `lengths`; the defaults of the operator elsewhere."""

    lengths: tuple[int, ...]
    heads: int = 2 if ON_GPU else 1
    width: int = 16
    value_width: int = 16
    contexts: tuple[int, ...] | None = None
    targets: tuple[int, ...] | None = None
    group: int = 0
    window: int = 0
    whole: int = 0
    alpha: float = 1.0
    mask_type: int = 0
    square: tuple[int, int] | None = None  # rows and heads of a bias
    relative: bool = False
    scale: float = 0.05
    dtype: torch.dtype = torch.float32
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        total, side = sum(self.lengths), max(self.lengths, default=0) + 3
        # Parts of one product, so that tokens are further apart than their heads are wide.
        whole = torch.randn(total, self.heads * (2 * self.width + self.value_width)).to(self.dtype)
        parts = whole.split([self.heads * n for n in (self.width, self.width, self.value_width)], 1)
        made = {name: part.unflatten(1, (self.heads, -1)) for name, part in zip("qkv", parts)}
        made["grad"] = torch.randn(total, self.heads, self.value_width).to(self.dtype)
        if self.square:
            made["bias"] = torch.randn(*self.square, side, side).to(self.dtype)
        if self.mask_type == 3:
            made["mask"] = torch.randn(1, self.heads, side, side) * (torch.rand(1, self.heads, side, side) < 0.7)
        if self.relative:
            made |= {"position": torch.randn(POSITIONS) * 0.5, "time": torch.randn(BUCKETS) * 0.5}
            # Gaps of seconds and of years, and equal times.
            gaps = [(2 ** (torch.rand(n) * 28) - 1).long() * (torch.rand(n) < 0.8) for n in self.lengths]
            made["times"] = torch.cat([torch.zeros(0).long(), *(10**9 + gap.cumsum(0) for gap in gaps)])
        self.tensors = made

    @property
    def learned(self) -> list[str]:
        return [name for name in ("q", "k", "v", "bias", "position", "time") if name in self.tensors]

    def counts(self, row: int) -> tuple[int, int]:
        return (self.contexts or self.lengths)[row] if self.contexts else 0, self.targets[row] if self.targets else 0

    def seen(self, row: int) -> list[list[bool]]:
        """A row's mask, cell by cell as spec/operators.md 5.4 writes it."""
        n, (c, t), g = self.lengths[row], self.counts(row), max(self.group, 1)
        h = n - t

        def cell(i: int, j: int) -> bool:
            if self.mask_type:
                return j >= i if self.mask_type == 1 else True
            if self.window:
                most = n - t if c == 0 else n - c + 1 - t
                place = (lambda p: min(p, most)) if c == 0 else (lambda p: min(max(p - c + 1, 0), most))
                apart = place(i) - place(j)
                near = apart <= self.window or (self.whole > 0 and place(i) >= most - self.whole)
                return ((i == j or apart > 0) and near) or (c > 0 and place(i) == 0 and place(j) < most)
            hidden = i >= h and j >= h and (i - h) // g != (j - h) // g
            return (j <= i and not hidden) or (i < c and j < h)

        return [[cell(i, j) for j in range(n)] for i in range(n)]

    def expected(self) -> list[torch.Tensor]:
        """The output and the gradients of `learned`, one row at a time in float64; torch for its gradients alone."""
        leaves = {name: self.tensors[name].detach().double().requires_grad_() for name in self.learned}
        out, begin = [], 0
        for row, n in enumerate(self.lengths):
            q, k, v = (leaves[name][begin : begin + n] for name in "qkv")
            score = torch.einsum("ina,jna->nij", q, k)
            if self.square:
                score = score + leaves["bias"][min(row, self.square[0] - 1)][:, :n, :n]
            if self.relative:
                score = score + self.relative_bias(row, begin, leaves)
            score = score * self.alpha
            weight = score / (1 + torch.exp(-score))
            weight = torch.where(torch.tensor(self.seen(row), dtype=torch.bool).reshape(n, n), weight, 0)
            if self.mask_type == 3:
                weight = weight * self.tensors["mask"][0, :, :n, :n].double()
            out.append(torch.einsum("nij,jnv->inv", weight, v) * self.scale)
            begin += n
        found = torch.cat(out)
        return [found, *torch.autograd.grad(found, list(leaves.values()), self.tensors["grad"].double())]

    def relative_bias(self, row, begin, leaves):
        n, history = self.lengths[row], self.lengths[row] - self.counts(row)[1]
        times = self.tensors["times"][begin : begin + n].tolist()
        bucket = [[reference.bucket(times[i] - times[j], BUCKETS) for j in range(n)] for i in range(n)]
        distance = [[max(0, min(i, history) - min(j, history)) for j in range(n)] for i in range(n)]
        bucket, distance = (torch.tensor(x, dtype=torch.int64).reshape(n, n) for x in (bucket, distance))
        return leaves["position"][distance] + leaves["time"][bucket]

    def found(self, device: torch.device, deterministic: bool = False) -> list[torch.Tensor]:
        t = {name: x.to(device) for name, x in self.tensors.items()}
        whole = torch.cat([t[name].flatten(1) for name in "qkv"], 1)
        split = whole.split([self.heads * n for n in (self.width, self.width, self.value_width)], 1)
        t |= {name: part.unflatten(1, (self.heads, -1)) for name, part in zip("qkv", split)}
        leaves = [t[name].requires_grad_() if name not in "qkv" else t[name] for name in self.learned]
        for leaf in leaves[:3]:
            leaf.requires_grad_()
        out = self.call(t, device, deterministic)
        return [out, *torch.autograd.grad(out, leaves, t["grad"])]

    def arguments(self, device: torch.device):
        """What stands behind q, k, v in hstu_jagged, to the window."""
        counts = [
            None if x is None else torch.tensor(x, dtype=torch.int64, device=device)
            for x in (self.contexts, self.targets)
        ]
        return self.offsets(device), *counts

    def offsets(self, device: torch.device) -> torch.Tensor:
        return torch.tensor([0, *torch.tensor(self.lengths).cumsum(0).tolist()], device=device)

    def call(self, t: dict[str, torch.Tensor], device: torch.device, deterministic: bool = False) -> torch.Tensor:
        offsets, contexts, targets = self.arguments(device)
        if self.relative:
            cells = attention.time_cells(BUCKETS, device)
            return torch.ops.mxrec.hstu_relative(
                t["q"], t["k"], t["v"], t["position"], t["time"], t["times"], cells, offsets, contexts, targets,
                self.group, max(self.lengths, default=0), self.scale,
            )  # fmt: skip
        return torch.ops.mxrec.hstu_jagged(
            t["q"], t["k"], t["v"], t.get("mask"), t.get("bias"), self.mask_type, 0, self.scale, offsets, contexts,
            targets, self.group, self.alpha, self.window, self.whole, deterministic,
        )  # fmt: skip


def assert_near(found, expected, bound=2e-6):
    for given, right in zip(found, expected, strict=True):
        error = (given.detach().double().cpu() - right.detach()).norm() / right.norm()
        assert right.abs().max() > 0 and error < bound, float(error)


# 70 on a GPU, 39 in the interpreter: several tiles and a part of one; 16: whole ones; 1: alone; 0: no row.
LENGTHS = (70, 33, 16, 0, 1) if ON_GPU else (37, 25, 16, 0, 1)
CONTEXTS, TARGETS = (3, 20, 0, 0, 1), (5, 2, 16, 0, 0)  # a tile of contexts and more; nothing but targets
CASES = {
    "causal": {"heads": 2},
    "heads that are no powers of two": {"heads": 2, "width": 20, "value_width": 40},
    "narrow heads": {"heads": 1, "width": 8, "value_width": 5},
    "alpha": {"alpha": 0.5},
    "upper": {"mask_type": 1},
    "no mask": {"mask_type": 2},
    "user's mask": {"mask_type": 3},
    "contexts": {"contexts": CONTEXTS},
    "targets": {"targets": TARGETS},
    "contexts and targets": {"contexts": CONTEXTS, "targets": TARGETS, "alpha": 0.7},
    "groups": {"targets": (20, 7, 3, 0, 0), "contexts": CONTEXTS, "group": 3},
    "window": {"window": 6},
    "window with contexts and targets": {"window": 9, "contexts": CONTEXTS, "targets": (5, 2, 4, 0, 0), "whole": 4},
    "window with targets": {"window": 2, "targets": (5, 2, 4, 0, 0)},
    "a bias for each": {"square": (5, 2), "heads": 2, "alpha": 0.5},
    "a bias for all": {"square": (1, 1), "contexts": CONTEXTS, "targets": TARGETS},
    "a bias for heads": {"square": (1, 2), "heads": 2},
    "relative": {"relative": True, "heads": 2},
    "relative, contexts": {"relative": True, "contexts": (3, 3, 3, 0, 1)},
    "relative, contexts and targets": {"relative": True, "contexts": CONTEXTS, "targets": TARGETS},
    "relative, groups": {"relative": True, "targets": (20, 7, 3, 0, 0), "group": 3, "value_width": 32},
}


@pytest.mark.parametrize("name", CASES)
def test_output_and_gradients_equal_the_formula(name, device):
    case = Case(LENGTHS, **CASES[name])
    assert_near(case.found(device), case.expected())


@pytest.mark.parametrize("name", ["causal", "contexts and targets", "relative, contexts and targets"])
@pytest.mark.parametrize("width", [16, 64, 128] if ON_GPU else [16])
def test_tiles_of_the_size_that_is_used(name, width, device, monkeypatch):
    """Of the first shape that fits, as where bits must repeat."""
    monkeypatch.undo()
    lengths, contexts = ((300, 129, 128), (130, 0, 2)) if ON_GPU else ((66, 64, 9), (65, 0, 2))
    counts = {} if name == "causal" else {"contexts": contexts, "targets": (1, 3, 7)}
    case = Case(lengths, width=width, value_width=width, **CASES[name] | counts | {"heads": 1})
    assert_near(case.found(device, True), case.expected())


@pytest.mark.parametrize("name", ["causal", "contexts and targets", "relative, contexts and targets"])
def test_half_precision_is_as_near_as_its_rounding(name, device):
    """bfloat16 on a GPU; the interpreter of Triton 3.2 takes its bits for numbers, so float16 there."""
    dtype, bound = (torch.bfloat16, 6e-3) if ON_GPU else (torch.float16, 1e-3)
    case = Case((33, 12, 2), dtype=dtype, **CASES[name] | {"contexts": (3, 0, 1), "targets": (5, 2, 1)})
    assert_near(case.found(device), case.expected(), bound)


def test_layouts_are_the_same_problem(device):
    """[B, S, N, D] and [L, N, D], offsets as a list and as a tensor, and the backward operators called by hand."""
    case = Case((9, 9, 9), heads=2, scale=1 / 9)
    t = {name: x.to(device) for name, x in case.tensors.items()}
    q, k, v, grad = (t[name] for name in ("q", "k", "v", "grad"))
    out, *wanted = case.expected()
    square = [x.unflatten(0, (3, 9)) for x in (q, k, v, grad)]
    assert_near([torch.ops.mxrec.hstu_dense(*square[:3]).flatten(0, 1)], [out])
    offsets = [0, 9, 18, 27]
    for given in (offsets, torch.tensor(offsets, device=device)):
        found = torch.ops.mxrec.hstu_dense(q, k, v, None, None, 0, 9, 0.0, "jagged", given)
        assert_near([found], [out])
        *found, none = torch.ops.mxrec.hstu_dense_backward(grad, q, k, v, None, None, "jagged", 0, 9, 0.0, given)
        assert_near(found, wanted)
        assert none.shape == (0,)
    *found, _ = torch.ops.mxrec.hstu_dense_backward(square[3], *square[:3], None, None, "normal", 0, 0)
    assert_near([x.flatten(0, 1) for x in found], wanted)
    *found, _ = torch.ops.mxrec.hstu_jagged_backward(
        grad, q, k, v, None, None, 0, 9, 0.0, torch.tensor(offsets, device=device)
    )
    assert_near(found, wanted)


@pytest.mark.parametrize("name", ["contexts and targets", "a bias for heads", "relative, contexts and targets"])
def test_the_same_bits_every_time(name, device):
    case = Case((40, 7, 2, 1, 1) if ON_GPU else (20, 7, 2, 1, 1), **CASES[name] | {"contexts": None, "targets": None})
    first, second = case.found(device, True), case.found(device, True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", ["contexts and targets", "a bias for heads", "relative, contexts and targets"])
def test_registration(name, device):
    """Schemas, fake kernels, autograd and traces agree with what the kernels do."""
    case = Case((5, 3), **CASES[name] | {"contexts": (1, 1), "targets": (2, 1)})
    t = {name: x.to(device) for name, x in case.tensors.items()}
    for learned in case.learned:
        t[learned] = t[learned].detach().contiguous().requires_grad_()
    offsets, contexts, targets = case.arguments(device)
    if case.relative:
        op = torch.ops.mxrec.hstu_relative.default
        arguments = (
            t["q"], t["k"], t["v"], t["position"], t["time"], t["times"], attention.time_cells(BUCKETS, device),
            offsets, contexts, targets, 1, 5, 0.1,
        )  # fmt: skip
    else:
        op = torch.ops.mxrec.hstu_jagged.equal
        arguments = (t["q"], t["k"], t["v"], None, t.get("bias"), 0, 5, 0.1, offsets, contexts, targets, 1, 0.5)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(op, arguments, test_utils=checks if ON_GPU else checks[:3])


# What is wrong, and how hstu_jagged says so on the CPU; those of the second part look inside offsets and counts.
WRONG = {
    "q must be 3-D": {"q": lambda x: x[0]},
    "k has 7 rows": {"k": lambda x: x[1:]},
    "differs in dtype": {"v": lambda x: x.half()},
    "q has an unsupported dtype": {"q": lambda x: x.long()},
    "mask_type is unknown": {"mask_type": lambda _: 4},
    "mask is missing": {"mask_type": lambda _: 3},
    "silu_scale must be finite": {"scale": lambda _: math.nan},
    "seq_offset is missing": {"offsets": lambda _: None},
    "num_target has 3 entries": {"targets": lambda x: x.repeat(2)[:3]},
    "target_group_size is negative": {"group": lambda _: -1},
    "alpha must be finite": {"alpha": lambda _: math.inf},
}
WRONG_INSIDE = {
    "must start at 0": {"offsets": lambda x: x + 1},
    "must be non-decreasing": {"offsets": lambda x: x.flip(0) - x.flip(0)[0]},
    "but q has 8 rows": {"offsets": lambda x: (x - 1).clamp(min=0)},
    "smaller than the longest row": {"longest": lambda _: 2},
    "num_target.1. is negative": {"targets": lambda x: x - 2},
    "is too large": {"contexts": lambda x: x + 5},
}


def wrong_arguments(change, device):
    a = {
        "q": torch.randn(8, 2, 16), "k": torch.randn(8, 2, 16), "v": torch.randn(8, 2, 16), "mask": None, "bias": None,
        "mask_type": 0, "longest": 5, "scale": 0.1, "offsets": torch.tensor([0, 5, 8]),
        "contexts": torch.tensor([1, 1]), "targets": torch.tensor([2, 1]), "group": 1, "alpha": 1.0,
    }  # fmt: skip
    a |= {name: value(a[name]) for name, value in change.items()}
    return [x.to(device) if isinstance(x, torch.Tensor) else x for x in a.values()]


def said(call):
    with pytest.raises(RuntimeError) as caught:
        call()
    return str(caught.value).splitlines()[0].replace("cuda:0", "cpu")


@pytest.mark.parametrize("words", WRONG)
def test_bad_arguments(words, device):
    assert words in said(lambda: torch.ops.mxrec.hstu_jagged(*wrong_arguments(WRONG[words], device)))


@pytest.mark.parametrize("words", WRONG_INSIDE)
def test_bad_contents(words, monkeypatch):
    """The same words as on the CPU. Without a GPU the CPU's operator is asked by hand, as the kernels do."""
    monkeypatch.setenv("MXREC_CHECK", "1")
    arguments = wrong_arguments(WRONG_INSIDE[words], "cuda" if ON_GPU else "cpu")
    op = torch.ops.mxrec.hstu_jagged.equal
    call = op if ON_GPU else lambda *_: operators._look_inside(op, arguments, arguments[8], arguments[6])
    expected = said(lambda: op(*wrong_arguments(WRONG_INSIDE[words], "cpu")))
    assert words.replace(".1.", "[1]") in expected
    assert said(lambda: call(*arguments)) == expected


def test_bad_tables(device):
    case = Case((5, 3), relative=True)
    wrong = {"position": [("half", "position does not fit"), (slice(3), "position has 3 distances")],
             "times": [(slice(4), "times does not fit")], "time": [("half", "time does not fit")]}  # fmt: skip
    for name, faults in wrong.items():
        for change, words in faults:
            t = {key: x.to(device) for key, x in case.tensors.items()}
            t[name] = t[name].half() if change == "half" else t[name][change]
            with pytest.raises(RuntimeError, match=words):
                case.call(t, device)


@triton.jit
def buckets(high, low, first_high, first_low, cells, out, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    query_high, query_low = tl.load(high + at), tl.load(low + at)
    found = time_bucket(query_high, query_low, tl.load(first_high), tl.load(first_low), cells)
    tl.store(out + at, found)


def test_buckets_are_those_of_plain_attention(device):
    """At each bucket's edge, one second beside it, and at any time, forward in time and backward."""
    count = 128
    least = attention.thresholds(count)
    edges = least[1:][least[1:] < 2**47]
    drawn = (2 ** (torch.rand(1018 - 3 * len(edges), dtype=torch.float64) * 47)).long()
    since = torch.cat([edges, edges - 1, edges + 1, drawn, torch.tensor([0, 1, -1, -5, -(2**33), 2**47])])
    earlier = 12_345_678_901
    high, low = (part.to(device) for part in split_times(torch.cat([torch.zeros(1).long(), earlier + since])))
    at_first = (part.to(device) for part in split_times(torch.tensor([0, earlier])))
    found = torch.empty(len(since), dtype=torch.int32, device=device)
    first_high, first_low = (part[1:] for part in at_first)
    buckets[(1,)](
        high[1:], low[1:], first_high, first_low, attention.time_cells(count, device), found, COUNT=len(since)
    )
    expected = attention.time_bucket(since, ModelConfig(time_buckets=count))
    assert found.cpu().tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["causal", "a bias for all", "relative, contexts and targets"])
def test_nothing_in_and_nothing_out(name, device):
    for lengths in ((), (0, 0)):
        counts = (0,) * len(lengths)
        case = Case(lengths, **CASES[name] | {"contexts": counts, "targets": counts})
        out, *found = case.found(device)
        assert out.shape == (0, case.heads, 16)
        assert all(float(x.abs().sum()) == 0.0 for x in found)
