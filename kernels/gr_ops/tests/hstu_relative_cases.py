"""Problems for hstu_relative: one description, from which both the call and its definition in float64 are made."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import torch
from gr_ops.time_cells import cell_starts, cells_of

COUNT = 100
LEAST = [-(2**63), *range(2, 5), *(int(5 * 1.35**n) for n in range(COUNT - 4))]  # seconds
TOLERANCE = {torch.float64: 2e-7, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def bucket(seconds: int) -> int:
    """Of a difference that wraps in 64 bits; counted in float32, as all devices do."""
    wrapped = (seconds + 2**63) % 2**64 - 2**63
    return bisect.bisect_right(EDGES, float(torch.tensor(wrapped).float())) - 1


EDGES = [float(torch.tensor(least).float()) for least in LEAST]
CELLS = cells_of(
    torch.tensor([bisect.bisect_right(EDGES, float(start)) - 1 for start in cell_starts()]), torch.tensor(LEAST)
)


@dataclass(frozen=True)
class Case:
    lengths: tuple[int, ...]
    contexts: tuple[int, ...] | None = None
    targets: tuple[int, ...] | None = None
    group: int = 0
    scale: float = 0.05
    dtype: torch.dtype = torch.float32
    gap: float = 28.0

    def tensors(self) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(sum(self.lengths))

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator)

        total = sum(self.lengths)
        made = {name: normal(total, 2, 16 if name in "qk" else 24).to(self.dtype) for name in ("q", "k", "v", "grad")}
        made |= {"position": normal(max(self.lengths, default=0) + 3) * 0.5, "time": normal(COUNT) * 0.5}
        gaps = (2 ** (torch.rand(total, generator=generator) * self.gap) - 1).long()
        made["times"] = torch.cat([gap.cumsum(0) for gap in gaps.split(list(self.lengths))]) + 10**9
        return made

    def call(self, t: dict[str, torch.Tensor]) -> torch.Tensor:
        device = t["q"].device
        offsets, contexts, targets = (
            None if x is None else torch.tensor(x, dtype=torch.int64, device=device)
            for x in ([0, *torch.tensor(self.lengths).cumsum(0).tolist()], self.contexts, self.targets)
        )
        tables = (t["position"], t["time"], t["times"], CELLS.to(device))
        longest = max(self.lengths, default=0)
        return torch.ops.mxrec.hstu_relative(
            t["q"], t["k"], t["v"], *tables, offsets, contexts, targets, self.group, longest, self.scale
        )

    def expected(self, t: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """The output and the gradients of LEARNED, a row at a time; torch for its gradients alone."""
        leaves = {name: t[name].detach().cpu().double().requires_grad_() for name in LEARNED}
        out, begin = [], 0
        for row, n in enumerate(self.lengths):
            q, k, v = (leaves[name][begin : begin + n] for name in "qkv")
            distance, of_time, seen = self._cells(row, t["times"][begin : begin + n].tolist())
            of_time = of_time.clamp(max=len(t["time"]) - 1)
            score = torch.einsum("ina,jna->nij", q, k) + leaves["position"][distance] + leaves["time"][of_time]
            weight = torch.where(seen, score / (1 + torch.exp(-score)), 0)
            out.append(torch.einsum("nij,jnv->inv", weight, v) * self.scale)
            begin += n
        found = torch.cat(out)
        return [found, *torch.autograd.grad(found, list(leaves.values()), t["grad"].cpu().double())]

    def _cells(self, row: int, times: list[int]) -> list[torch.Tensor]:
        n, g = len(times), max(self.group, 1)
        c = self.contexts[row] if self.contexts else 0
        h = n - (self.targets[row] if self.targets else 0)

        def seen(i: int, j: int) -> bool:
            hidden = i >= h and j >= h and (i - h) // g != (j - h) // g
            return (j <= i and not hidden) or (i < c and j < h)

        places = [[(i, j) for j in range(n)] for i in range(n)]
        of_cells = (
            lambda i, j: max(min(i, h) - min(j, h), 0),
            lambda i, j: bucket(times[i] - times[j]),
            seen,
        )
        kinds = (torch.int64, torch.int64, torch.bool)
        return [
            torch.tensor([[f(*cell) for cell in line] for line in places], dtype=kind).reshape(n, n)
            for f, kind in zip(of_cells, kinds, strict=True)
        ]


LEARNED = ("q", "k", "v", "position", "time")


def found(case: Case, t: dict[str, torch.Tensor], device: str) -> list[torch.Tensor]:
    t = {name: x.to(device) for name, x in t.items()}
    leaves = [t[name].requires_grad_() for name in LEARNED]
    out = case.call(t)
    return [x.detach().cpu() for x in (out, *torch.autograd.grad(out, leaves, t["grad"]))]
