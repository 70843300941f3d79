"""Embedding lookup and optimizer step beside fbgemm_gpu's kernels for the CPU.

Adam and pooling NONE do not exist in fbgemm_gpu 1.1.0 on the CPU: their peers are PyTorch's own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from . import roofline
from .cases import Call, Case, Side, batches_of
from .peers import FBGEMM, with_roofline

TITLE = "Operators on the CPU: embedding lookup and optimizer step"
SUM, NONE = 0, 2
Lookup = Callable[[int], torch.Tensor]  # of a batch


@dataclass(frozen=True, kw_only=True)
class Shape:
    """T tables of E rows and D columns; B bags per table, of up to 2 * bag indices."""

    name: str
    tables: int
    rows: int
    dim: int
    batch: int
    bag: int
    hot: float = 0.0  # share of the indices that is row 0
    dtype: torch.dtype = torch.float32


SHAPES = (
    Shape(name="4 tables, 100k x 64, bags of 20", tables=4, rows=100_000, dim=64, batch=256, bag=20),
    Shape(name="1 table, 200k x 128, bags of 50", tables=1, rows=200_000, dim=128, batch=512, bag=50),
    Shape(name="26 tables, 10k x 16, bags of 1", tables=26, rows=10_000, dim=16, batch=512, bag=1),
    Shape(name="2 tables, 1k x 8, bags of 5", tables=2, rows=1000, dim=8, batch=64, bag=5),
    Shape(name="4 tables, 100k x 64, half of it row 0", tables=4, rows=100_000, dim=64, batch=256, bag=20, hot=0.5),
    Shape(name="4 tables, 100k x 64, fp16", tables=4, rows=100_000, dim=64, batch=256, bag=20, dtype=torch.float16),
)


class Bags:
    """The arguments of the calls of one shape. All batches have the same lengths of bags, in orders of their own."""

    def __init__(self, shape: Shape) -> None:
        torch.manual_seed(0)
        self.shape = shape
        lengths = torch.randint(0, 2 * shape.bag + 1, (shape.tables * shape.batch,))
        self.count = int(lengths.sum())
        self.batches = batches_of(8 * self.count)
        self.indices, self.offsets = [], []
        for _ in range(self.batches):
            order = lengths[torch.randperm(len(lengths))]
            self.offsets.append(torch.cat([torch.zeros(1, dtype=torch.int64), order.cumsum(0)]))
            drawn = torch.randint(0, shape.rows, (self.count,))
            self.indices.append(torch.where(torch.rand(self.count) < shape.hot, 0, drawn))
        self.starts = torch.arange(shape.tables) * shape.rows * shape.dim
        self.columns = torch.arange(shape.tables + 1, dtype=torch.int32) * shape.dim
        self.keys = torch.arange(shape.tables + 1) * shape.rows
        self.initial = (torch.rand(shape.tables * shape.rows * shape.dim) - 0.5).to(shape.dtype)

    def rows(self, batch: int) -> torch.Tensor:
        """The indices' rows of all tables one behind the other."""
        tables = torch.arange(self.shape.tables).repeat_interleave(self.offsets[batch][:: self.shape.batch].diff())
        return self.indices[batch] + tables * self.shape.rows

    def state(self, optimizer: str) -> dict[str, object]:
        shape = self.shape
        if optimizer == "sgd":
            return {}
        rowwise = optimizer == "rowwise_adagrad"
        size = shape.tables * shape.rows * (1 if rowwise else shape.dim)
        state: dict[str, object] = {"eps": 1e-3}
        for name in ("momentum1", "momentum2") if optimizer == "adam" else ("momentum1",):
            state[f"{name}_host"] = torch.zeros(size)
            state[f"{name}_placements"] = torch.zeros(shape.tables, dtype=torch.int32)
            state[f"{name}_offsets"] = self.keys[:-1] if rowwise else self.starts
        if rowwise:
            state |= {"weight_decay": 0.0, "weight_decay_mode": 0, "max_norm": 0.0}
        if optimizer == "adam":
            state |= {"beta1": 0.9, "beta2": 0.999, "iter": 1}
        return state

    def lookup(self, space: str, optimizer: str, pooling: int) -> tuple[Lookup, torch.Tensor]:
        """The entry point for CPU tensors, whose backward pass is the optimizer's step, and its weights."""
        op = getattr(getattr(torch.ops, space), f"split_embedding_codegen_lookup_{optimizer}_function_cpu")
        weights = self.initial.clone().requires_grad_()
        arguments = dict(
            host_weights=weights,
            weights_placements=torch.zeros(self.shape.tables, dtype=torch.int32),
            weights_offsets=self.starts,
            D_offsets=self.columns,
            total_D=self.shape.tables * self.shape.dim,
            max_D=self.shape.dim,
            hash_size_cumsum=self.keys,
            total_hash_size_bits=int(self.keys[-1]).bit_length(),
            pooling_mode=pooling,
            indice_weights=None,
            feature_requires_grad=None,
            gradient_clipping=False,
            max_gradient=1.0,
            stochastic_rounding=False,
            learning_rate=0.01,
            **self.state(optimizer),
        )
        return lambda i: op(**arguments, indices=self.indices[i], offsets=self.offsets[i]), weights


def _without_gradient(call: Lookup) -> Side:
    return partial(partial, torch.no_grad()(call))


def _step(call: Lookup) -> Side:
    def prepare(batch: int) -> Call:
        out = call(batch)
        gradient = torch.ones_like(out)
        return lambda: out.backward(gradient)

    return prepare


def _beside_fbgemm(shape: Shape) -> Iterator[Case]:
    bags = Bags(shape)
    ours, theirs = (bags.lookup(space, "sgd", SUM)[0] for space in ("mxrec", "fbgemm"))
    lookup = Case(
        operator="lookup, SUM",
        shape=shape.name,
        peer=FBGEMM,
        batches=bags.batches,
        ours=_without_gradient(ours),
        theirs=_without_gradient(theirs),
        moved_bytes=bags.count * (shape.dim * bags.initial.itemsize + 8),
        tolerance=1e-4,
    )
    yield lookup
    if shape.dtype == torch.float32 and shape.dim % 16 == 0:
        table = bags.initial.clone()
        loops = [roofline.rows(table, bags.rows(i), shape.dim) for i in range(bags.batches)]
        yield from with_roofline(lookup, loops.__getitem__)
    for name in ("sgd", "adagrad", "rowwise_adagrad"):
        steps, weights = zip(*(bags.lookup(space, name, SUM) for space in ("mxrec", "fbgemm")))
        sides = [_step(call) for call in steps]

        def verify(sides: list[Side] = sides, weights: tuple[torch.Tensor, ...] = weights) -> None:
            for side in sides:
                side(0)()
                side(1)()
            tolerance = 1e-4 if shape.dtype == torch.float32 else 2e-3
            torch.testing.assert_close(*weights, rtol=tolerance, atol=tolerance)

        yield Case(
            operator=f"step, {name}",
            shape=shape.name,
            peer=FBGEMM,
            batches=bags.batches,
            ours=sides[0],
            theirs=sides[1],
            tolerance=None,
            verify=verify,
        )


def _beside_torch(shape: Shape) -> Iterator[Case]:
    """One table: what fbgemm's CPU build lacks."""
    bags = Bags(shape)
    table = bags.initial.view(shape.rows, shape.dim)
    yield Case(
        operator="lookup, NONE",
        shape=shape.name,
        peer="torch embedding",
        batches=bags.batches,
        ours=_without_gradient(bags.lookup("mxrec", "sgd", NONE)[0]),
        theirs=_without_gradient(lambda i: torch.nn.functional.embedding(bags.indices[i], table)),
        moved_bytes=bags.count * (2 * shape.dim * table.itemsize + 8),
    )
    module = torch.nn.EmbeddingBag.from_pretrained(
        table.clone(), freeze=False, mode="sum", sparse=True, include_last_offset=True
    )
    optimizer = torch.optim.SparseAdam(module.parameters(), lr=0.01)

    def theirs(batch: int) -> Call:
        optimizer.zero_grad()
        out = module(bags.indices[batch], bags.offsets[batch])
        gradient = torch.ones_like(out)

        def backward_and_step() -> None:
            out.backward(gradient)
            optimizer.step()

        return backward_and_step

    yield Case(
        operator="step, adam",
        shape=shape.name,
        peer="torch EmbeddingBag, SparseAdam",
        batches=bags.batches,
        ours=_step(bags.lookup("mxrec", "adam", SUM)[0]),
        theirs=theirs,
        tolerance=None,
    )


def cases() -> Iterator[Case]:
    for shape in SHAPES:
        yield from _beside_fbgemm(shape)
        if shape.tables == 1:
            yield from _beside_torch(shape)
