"""Embedding lookup and optimizer step beside fbgemm_gpu's kernels for the CPU.

Adam and pooling NONE do not exist in fbgemm_gpu 1.1.0 on the CPU: their peers are PyTorch's own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from . import roofline
from .cases import Call, Case, Side, batches_of
from .peers import FBGEMM, with_roofline

TITLE = "Operators on the CPU: embedding lookup and optimizer step"
SUM, MEAN, NONE = 0, 1, 2
RATE, DECAY = 0.01, 0.1
EPS_OF_ADAM = 1e-8  # so small that where it is added, before or after the corrections, does not matter
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
        self.indices, self.offsets, self.weights = [], [], []
        for _ in range(self.batches):
            order = lengths[torch.randperm(len(lengths))]
            self.offsets.append(torch.cat([torch.zeros(1, dtype=torch.int64), order.cumsum(0)]))
            drawn = torch.randint(0, shape.rows, (self.count,))
            self.weights.append(torch.rand(self.count))
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
        by_adam = optimizer in ("adam", "adamw")
        for name in ("momentum1", "momentum2") if by_adam else ("momentum1",):
            state[f"{name}_host"] = torch.zeros(size)
            state[f"{name}_placements"] = torch.zeros(shape.tables, dtype=torch.int32)
            state[f"{name}_offsets"] = self.keys[:-1] if rowwise else self.starts
        if rowwise:
            state |= {"weight_decay": 0.0, "weight_decay_mode": 0, "max_norm": 0.0}
        if by_adam:
            state |= {"beta1": 0.9, "beta2": 0.999, "iter": 1, "eps": EPS_OF_ADAM}
            state["weight_decay"] = DECAY if optimizer == "adamw" else 0.0
        return state

    def lookup(self, space: str, optimizer: str, pooling: int, weighted: bool = False) -> tuple[Lookup, torch.Tensor]:
        """The entry point for CPU tensors, whose backward pass is the optimizer's step, and its weights."""
        entry = optimizer.removesuffix("w")  # AdamW is Adam with a decay
        op = getattr(getattr(torch.ops, space), f"split_embedding_codegen_lookup_{entry}_function_cpu")
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
            feature_requires_grad=None,
            gradient_clipping=False,
            max_gradient=1.0,
            stochastic_rounding=False,
            learning_rate=RATE,
            **self.state(optimizer),
        )

        def call(i: int) -> torch.Tensor:
            weights_of_indices = self.weights[i] if weighted else None
            return op(**arguments, indices=self.indices[i], offsets=self.offsets[i], indice_weights=weights_of_indices)

        return call, weights


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
    for operator, pooling, weighted in (("lookup, SUM, weighted", SUM, True), ("lookup, MEAN", MEAN, False)):
        ours, theirs = (bags.lookup(space, "sgd", pooling, weighted)[0] for space in ("mxrec", "fbgemm"))
        sides = (_without_gradient(call) for call in (ours, theirs))
        moved = lookup.moved_bytes + (4 * bags.count if weighted else 0)
        yield replace(lookup, operator=operator, ours=next(sides), theirs=next(sides), moved_bytes=moved)
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
    for name, decay in (("adam", 0.0), ("adamw", DECAY)):
        call, weights = bags.lookup("mxrec", name, SUM)
        ours, (theirs, their_weights) = _step(call), _sparse_adam(bags, table, decay)

        def verify(
            sides: tuple[Side, Side] = (ours, theirs),
            weights: tuple[torch.Tensor, torch.Tensor] = (weights, their_weights),
        ) -> None:
            for side in sides:
                side(0)()  # one step: ours is always the first one, by its argument
            torch.testing.assert_close(*(x.detach().flatten() for x in weights), rtol=1e-4, atol=1e-6)

        yield Case(
            operator=f"step, {name}",
            shape=shape.name,
            peer="torch EmbeddingBag, SparseAdam" + (", decay of the rows" if decay else ""),
            batches=bags.batches,
            ours=ours,
            theirs=theirs,
            tolerance=None,
            verify=verify,
        )


def _sparse_adam(bags: Bags, table: torch.Tensor, decay: float) -> tuple[Side, torch.Tensor]:
    """A step of the rows that a batch has, as PyTorch's own operators do it, and the weights."""
    module = torch.nn.EmbeddingBag.from_pretrained(
        table.clone(), freeze=False, mode="sum", sparse=True, include_last_offset=True
    )
    optimizer = torch.optim.SparseAdam(module.parameters(), lr=RATE, eps=EPS_OF_ADAM)

    def prepare(batch: int) -> Call:
        optimizer.zero_grad()
        out = module(bags.indices[batch], bags.offsets[batch])
        gradient = torch.ones_like(out)

        def backward_and_step() -> None:
            out.backward(gradient)
            if decay:
                module.weight.grad = module.weight.grad.coalesce()
                rows, weight = module.weight.grad.indices()[0], module.weight.detach()
                weight.index_copy_(0, rows, weight[rows] * (1 - RATE * decay))
            optimizer.step()

        return backward_and_step

    return prepare, module.weight


def cases() -> Iterator[Case]:
    for shape in SHAPES:
        yield from _beside_fbgemm(shape)
        if shape.tables == 1:
            yield from _beside_torch(shape)
