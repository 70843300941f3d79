"""Tables of a fused lookup, their batches, and what training does to them: by autograd and torch.optim in float64.

Several features read one table, tables differ in width (but for the unpooled), bags are empty, rows repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

ROWS, DIMS, FEATURE_TABLE = [10, 7, 300], [8, 4, 64], [0, 0, 1, 2]
BATCH, STEPS, LONGEST = 5, 3, 4
RATE, EPS, BETAS, DECAY, MAX_NORM = 0.1, 1e-8, (0.9, 0.999), 0.3, 4.0
OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad", "rowwise_l2", "rowwise_decouple", "rowwise_norm", "adam", "adamw")
POOLINGS = ("sum", "mean", "none")


@dataclass(frozen=True)
class Case:
    optimizer: str
    pooling: str
    weighted: bool

    @property
    def name(self) -> str:
        return f"{self.optimizer}-{self.pooling}{'-weighted' if self.weighted else ''}"

    @property
    def dims(self) -> list[int]:
        return [8] * len(ROWS) if self.pooling == "none" else DIMS


CASES = [Case(*each) for each in product(OPTIMIZERS, POOLINGS, (False, True))]


def make_tables(case: Case) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(rows, dim, generator=generator) for rows, dim in zip(ROWS, case.dims, strict=True)]


def make_batch(step: int) -> tuple[Tensor, Tensor, Tensor]:
    """indices [L], offsets [features * BATCH + 1], weights [L]"""
    generator = torch.Generator().manual_seed(step)
    lengths = torch.randint(0, LONGEST, (len(FEATURE_TABLE), BATCH), generator=generator)
    lengths[:, step] = 0
    lengths[1, 1] = lengths[2, 0] = LONGEST
    indices = [
        torch.randint(0, ROWS[table], (int(part.sum()),), generator=generator)
        for table, part in zip(FEATURE_TABLE, lengths, strict=True)
    ]
    offsets = nn.functional.pad(lengths.flatten().cumsum(0), (1, 0))
    return torch.cat(indices), offsets, torch.rand(int(lengths.sum()), generator=generator)


def make_gradient(step: int, like: Tensor) -> Tensor:
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(100 + step))


def trained(case: Case) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Outputs and gradients of the weights of each step, and the tables after them; float64."""
    tables = [nn.Parameter(table.double()) for table in make_tables(case)]
    step_of = _optimizer(case.optimizer, tables)
    outputs, factor_gradients = [], []
    for step in range(STEPS):
        indices, offsets, drawn = make_batch(step)
        factors = drawn.double().requires_grad_() if case.weighted else torch.ones_like(drawn, dtype=torch.float64)
        out = _lookup(case, tables, indices, offsets, factors)
        for table in tables:
            table.grad = None
        out.backward(make_gradient(step, out).double())
        starts = offsets[::BATCH]
        for number, table in enumerate(tables):
            here = [indices[starts[f] : starts[f + 1]] for f, t in enumerate(FEATURE_TABLE) if t == number]
            rows = torch.cat(here).unique()
            assert table.grad is not None
            table.grad = torch.sparse_coo_tensor(rows[None], table.grad[rows], table.shape)
        step_of()
        outputs.append(out.detach())
        factor_gradients.append(factors.grad if factors.grad is not None else torch.zeros(0))
    return outputs, factor_gradients, [table.detach() for table in tables]


def _lookup(case: Case, tables: list[nn.Parameter], indices: Tensor, offsets: Tensor, factors: Tensor) -> Tensor:
    lengths = offsets.diff()
    bags = torch.repeat_interleave(torch.arange(lengths.numel()), lengths)
    blocks = []
    for feature, table in enumerate(FEATURE_TABLE):
        first, last = int(offsets[feature * BATCH]), int(offsets[(feature + 1) * BATCH])
        rows = tables[table][indices[first:last]] * factors[first:last, None]
        if case.pooling == "none":
            blocks.append(rows)
            continue
        pooled = torch.zeros(BATCH, rows.size(1), dtype=torch.float64)
        pooled = pooled.index_add(0, bags[first:last] - feature * BATCH, rows)
        here = lengths[feature * BATCH : (feature + 1) * BATCH].clamp(min=1)
        blocks.append(pooled / here[:, None] if case.pooling == "mean" else pooled)
    return torch.cat(blocks, dim=0 if case.pooling == "none" else 1)


def _optimizer(name: str, tables: list[nn.Parameter]) -> Callable[[], object]:
    """A function that makes one step of the rows that have a gradient."""
    if name.startswith("rowwise"):
        return _Rowwise(name, tables)
    if name.startswith("adam"):
        return _Adam(tables, DECAY if name == "adamw" else 0.0)
    made = {"sgd": torch.optim.SGD(tables, lr=RATE), "adagrad": torch.optim.Adagrad(tables, lr=RATE, eps=EPS)}
    return made[name].step


class _Adam:
    """Of the rows of a batch, as fbgemm's: moments of other rows wait, and bias is corrected by the step of the table.

    torch.optim.SparseAdam adds eps before the correction, so it is not the reference.
    """

    def __init__(self, tables: list[nn.Parameter], decay: float) -> None:
        self.tables, self.decay, self.step = tables, decay, 0
        self.first, self.second = ([torch.zeros_like(table) for table in tables] for _ in range(2))

    @torch.no_grad()
    def __call__(self) -> None:
        self.step += 1
        for table, first, second in zip(self.tables, self.first, self.second, strict=True):
            sparse = table.grad.coalesce()  # type: ignore[union-attr]
            rows, gradient = sparse.indices()[0], sparse.values()
            first[rows] = BETAS[0] * first[rows] + (1 - BETAS[0]) * gradient
            second[rows] = BETAS[1] * second[rows] + (1 - BETAS[1]) * gradient.square()
            corrected = [
                moment[rows] / (1 - beta**self.step) for moment, beta in zip((first, second), BETAS, strict=True)
            ]
            table[rows] -= RATE * (corrected[0] / (corrected[1].sqrt() + EPS) + self.decay * table[rows])


class _Rowwise:
    """Adagrad with the mean square of a row, its decay and its limit of the norm."""

    def __init__(self, name: str, tables: list[nn.Parameter]) -> None:
        self.name, self.tables = name, tables
        self.squares = [torch.zeros(table.size(0), dtype=torch.float64) for table in tables]

    @torch.no_grad()
    def __call__(self) -> None:
        for table, squares in zip(self.tables, self.squares, strict=True):
            sparse = table.grad.coalesce()  # type: ignore[union-attr]
            for row, gradient in zip(sparse.indices()[0], sparse.values(), strict=True):
                if self.name == "rowwise_l2":
                    gradient = gradient + DECAY * table[row]
                squares[row] += gradient.square().mean()
                kept = 1 - RATE * DECAY if self.name == "rowwise_decouple" else 1.0
                table[row] = kept * table[row] - RATE * gradient / (squares[row].sqrt() + EPS)
                norm = table[row].norm()
                if self.name == "rowwise_norm" and norm > MAX_NORM:
                    table[row] *= MAX_NORM / norm
