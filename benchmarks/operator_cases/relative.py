"""The attention of an HSTU layer with its relative bias: hstu_relative beside PyTorch's operators.

Peers: "padded" is q, k, v padded to S tokens a row and S x S scores, as HSTU is commonly written: the bias is taken
from its tables by distance and by the bucket of the logarithm of seconds, then SiLU and mask. "padded, buckets given"
is the same with buckets computed beforehand, as in a model whose layers share them. Ours makes both in the call.
"""

from collections.abc import Callable, Iterator
from math import ceil, exp

import torch
import torch.nn.functional as F
from gr_ops.time_cells import cell_starts, cells_of

from .cases import Case, Side, batches_of
from .hstu import Attention, Outputs, Shape

BUCKETS, WIDTH = 56, 0.301  # of buckets of log seconds; the last one begins behind LATEST
LATEST = 10**7  # seconds; float32 has them exactly
SHAPES = (
    Shape(batch=128, length=200, heads=1, dim=50),
    Shape(batch=16, length=512),
    Shape(batch=16, length=512, dtype=torch.bfloat16),
    Shape(batch=16, length=512, dtype=torch.float16),
)
# Of results and gradients, relative. PyTorch adds up the cells of a table one after the other, and rounds the result of
# each operation to 16 bits.
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


def buckets_of(seconds: torch.Tensor) -> torch.Tensor:
    return (seconds.float().log() / WIDTH).long().clamp(max=BUCKETS - 1)


def cells() -> torch.Tensor:
    """The same buckets as hstu_relative takes them."""
    bounds = torch.tensor([ceil(exp(WIDTH * n)) for n in range(BUCKETS)])
    near = (bounds[:, None] + torch.arange(-64, 65)).clamp(min=1)  # the logarithm is rounded: to 14 s at LATEST
    least = torch.where(buckets_of(near) >= torch.arange(BUCKETS)[:, None], near, 2 * LATEST).amin(1)
    return cells_of(buckets_of(cell_starts()), least)


class Relative(Attention):
    """Rows with times and both tables."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        super().__init__(shape, seed)
        self.times = torch.cat([torch.randint(LATEST, (n,)).sort().values for n in self.lengths.tolist()])
        self.tables = [torch.randn(n).mul(0.02).requires_grad_() for n in (shape.length, BUCKETS)]
        self.cells = cells()
        at = torch.arange(shape.length)
        self.distance = (at[:, None] - at).clamp(min=0)
        self.padded_times = self.pad(self.times)
        self.known = self.buckets()

    def buckets(self) -> torch.Tensor:
        """[B, S, S]"""
        return buckets_of((self.padded_times[:, :, None] - self.padded_times[:, None]).clamp(min=1))

    def ours(self) -> list[torch.Tensor]:
        times = (self.times, self.cells, self.offsets)
        length = self.shape.length
        return [torch.ops.mxrec.hstu_relative(*self.jagged, *self.tables, *times, None, None, 0, length, 1.0 / length)]

    def by_padding(self, given: bool = False) -> list[torch.Tensor]:
        q, k, v = self.padded
        bucket = self.known if given else self.buckets()
        position, time = (
            table.index_select(0, index.flatten()).view(index.shape)
            for table, index in zip(self.tables, (self.distance, bucket))
        )
        scores = q @ k.transpose(-1, -2) + (position + time)[:, None].to(self.shape.dtype)
        return [F.silu(scores) * (1.0 / self.shape.length) * self.causal @ v]

    def check(self) -> None:
        """Both sides give the same results and gradients."""
        gradient = torch.rand(self.jagged[0].shape).to(self.shape.dtype)
        ours, padded = self.ours()[0], self.by_padding()[0]
        found = [ours, *torch.autograd.grad(ours, [*self.jagged, *self.tables], gradient)]
        by_head = self.pad(gradient).transpose(1, 2)
        wanted = [padded, *torch.autograd.grad(padded, [*self.padded, *self.tables], by_head)]
        inside = torch.arange(self.shape.length) < self.lengths[:, None]
        wanted[:4] = [x.transpose(1, 2)[inside] for x in wanted[:4]]
        for one, other in zip(found, wanted, strict=True):
            error = (one.double() - other.double()).norm() / other.double().norm()
            assert error <= TOLERANCE[self.shape.dtype], (self.shape.name, float(error))


def _of(shape: Shape) -> Iterator[Case]:
    count = batches_of(3 * sum(part.nbytes for part in Relative(shape).jagged))
    batches = [Relative(shape, seed) for seed in range(count)]
    gradients = [[torch.rand_like(part) for part in torch.no_grad()(one.ours)()] for one in batches]
    padded_gradients = [[one.pad(g[0]).transpose(1, 2)] for one, g in zip(batches, gradients)]
    given: Callable[[Relative], Outputs] = lambda one: lambda: one.by_padding(given=True)  # noqa: E731

    def both(one: Relative, call: Outputs, rows: list[torch.Tensor], of: list[torch.Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(call(), [*rows, *one.tables], of)

    for peer, call in (("padded", lambda one: one.by_padding), ("padded, buckets given", given)):
        sides: list[tuple[str, Side, Side, float]] = [
            (
                "forward",
                lambda i: torch.no_grad()(batches[i].ours),
                lambda i, call=call: torch.no_grad()(call(batches[i])),
                1.0,
            ),
            (
                "forward + backward",
                lambda i: both(batches[i], batches[i].ours, batches[i].jagged, gradients[i]),
                lambda i, call=call: both(batches[i], call(batches[i]), batches[i].padded, padded_gradients[i]),
                3.5,
            ),
        ]
        for way, ours, theirs, factor in sides:
            yield Case(
                operator=f"hstu_relative, {way}",
                shape=shape.name,
                peer=peer,
                batches=count,
                ours=ours,
                theirs=theirs,
                flops=factor * batches[0].flops(),
                tolerance=None,
                verify=batches[0].check,
            )


def cases() -> Iterator[Case]:
    for shape in SHAPES:
        yield from _of(shape)
