"""Problems of hstu_jagged and hstu_relative, what the formulas make of them in float64, and what the operators do."""

from dataclasses import dataclass, field

import time_buckets
import torch

ON_GPU = torch.cuda.is_available()
POSITIONS = 300


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
    distance: int = -1
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
            made |= {"position": torch.randn(POSITIONS) * 0.5, "time": torch.randn(time_buckets.COUNT) * 0.5}
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
        """A row's mask, cell by cell as the documents of hstu_jagged define it."""
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
            near = self.distance < 0 or i - j <= self.distance
            return (j <= i and near and not hidden) or (i < c and j < h)

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
        bucket = [[time_buckets.bucket(times[i] - times[j]) for j in range(n)] for i in range(n)]
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
            cells = time_buckets.cells(device)
            return torch.ops.mxrec.hstu_relative(
                t["q"],
                t["k"],
                t["v"],
                t["position"],
                t["time"],
                t["times"],
                cells,
                offsets,
                contexts,
                targets,
                self.group,
                max(self.lengths, default=0),
                self.scale,
            )
        return torch.ops.mxrec.hstu_jagged(
            t["q"],
            t["k"],
            t["v"],
            t.get("mask"),
            t.get("bias"),
            self.mask_type,
            0,
            self.scale,
            offsets,
            contexts,
            targets,
            self.group,
            self.alpha,
            self.window,
            self.whole,
            deterministic,
            self.distance,
        )


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
    "window by distance": {"distance": 6},
    "window by distance, itself alone": {"distance": 0, "targets": TARGETS},
    "window by distance with contexts and groups": {
        "distance": 9,
        "contexts": CONTEXTS,
        "targets": (20, 5, 3, 0, 0),
        "group": 3,
    },
    "a group of all and more": {"targets": (20, 7, 3, 0, 0), "contexts": CONTEXTS, "group": 2**31 - 1},
    "a window beyond all": {"window": 2**31 - 1, "whole": 2**40, "contexts": CONTEXTS, "targets": (5, 2, 4, 0, 0)},
    "window by distance beyond all": {"distance": 2**40, "contexts": CONTEXTS, "targets": TARGETS},
    "a bias for each": {"square": (5, 2), "heads": 2, "alpha": 0.5},
    "a bias for all": {"square": (1, 1), "contexts": CONTEXTS, "targets": TARGETS},
    "a bias for heads": {"square": (1, 2), "heads": 2},
    "relative": {"relative": True, "heads": 2},
    "relative, contexts": {"relative": True, "contexts": (3, 3, 3, 0, 1)},
    "relative, contexts and targets": {"relative": True, "contexts": CONTEXTS, "targets": TARGETS},
    "relative, groups": {"relative": True, "targets": (20, 7, 3, 0, 0), "group": 3, "value_width": 32},
}
