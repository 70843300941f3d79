"""HSTU attention: torch.ops.mxrec.hstu_dense beside PyTorch's own operators, lower triangular mask.

Peers: "padded" is q, k, v padded to S tokens a row, S x S scores, SiLU, mask, as HSTU is commonly written; "by row"
is the same row by row without padding. Their inputs are prepared beforehand; what is timed is the attention alone.
Lengths are uniform in 1 to S, or all S. Uniform ones are spread evenly, so that a few rows are as uniform as many.

What is asked for (targets, section 4): 5 times "padded" at S = 1024 with uniform lengths; elsewhere, and beside "by
row", never slower. Padding wastes less on short rows, whose scores fit the caches too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from .cases import Call, Case, Side, batches_of

TITLE = "HSTU attention on the CPU"
OF_PADDED, AT_LENGTH = 5.0, 1024  # asked for beside padding, with lengths uniform in 1 to S = AT_LENGTH


@dataclass(frozen=True, kw_only=True)
class Shape:
    """B rows of up to S tokens, N heads of D elements."""

    batch: int
    length: int
    heads: int = 4
    dim: int = 64
    dtype: torch.dtype = torch.float32
    uniform: bool = True

    @property
    def name(self) -> str:
        lengths = f"1 to {self.length}" if self.uniform else f"{self.length}"
        return f"{self.batch} rows of {lengths}, {self.heads} x {self.dim}, {str(self.dtype)[6:]}"


LENGTHS = (64, 256, 1024)
SHAPES = (
    *(Shape(batch=8192 // s, length=s) for s in (64, 128, 256, 512, 1024)),
    *(Shape(batch=8192 // s, length=s, dtype=dtype) for dtype in (torch.bfloat16, torch.float16) for s in LENGTHS),
    *(Shape(batch=8192 // s, length=s, uniform=False) for s in (128, 1024)),
    Shape(batch=8, length=1024, dtype=torch.bfloat16, uniform=False),
    Shape(batch=8, length=1024, dim=32),
    Shape(batch=8, length=1024, dim=128),
)


class Attention:
    """One case in the three forms; each call gives the output."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.shape = shape
        self.checked = False
        if shape.uniform:
            evenly = (torch.arange(shape.batch) + 0.5) * shape.length / shape.batch
            self.lengths = evenly.ceil().long()[torch.randperm(shape.batch)]
        else:
            self.lengths = torch.full((shape.batch,), shape.length)
        self.offsets = torch.cat([torch.zeros(1, dtype=torch.int64), self.lengths.cumsum(0)])
        total = int(self.offsets[-1])
        jagged = [torch.rand(total, shape.heads, shape.dim).sub(0.5).to(shape.dtype) for _ in range(3)]
        self.jagged = [x.requires_grad_() for x in jagged]
        # [B, N, S, D], and for each row [N, n, D]
        self.padded = [self.pad(x.detach()).transpose(1, 2).contiguous().requires_grad_() for x in jagged]
        self.rows = [[self.by_head(part) for part in x.detach().split(self.lengths.tolist())] for x in jagged]
        self.causal = torch.tril(torch.ones(shape.length, shape.length, dtype=shape.dtype))

    def pad(self, jagged: torch.Tensor) -> torch.Tensor:
        padded = jagged.new_zeros(self.shape.batch, self.shape.length, *jagged.shape[1:])
        for row, tokens in zip(padded, jagged.split(self.lengths.tolist())):
            row[: len(tokens)] = tokens
        return padded

    @staticmethod
    def by_head(row: torch.Tensor) -> torch.Tensor:
        return row.transpose(0, 1).contiguous().requires_grad_()

    def flops(self) -> float:
        pairs = float((self.lengths * (self.lengths + 1)).sum()) / 2
        return 4 * pairs * self.shape.heads * self.shape.dim

    def naive(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        n = q.shape[-2]
        weights = F.silu(q @ k.transpose(-1, -2)) * (1.0 / self.shape.length)
        return (weights * self.causal[:n, :n]) @ v

    def ours(self) -> list[torch.Tensor]:
        length = self.shape.length
        return [torch.ops.mxrec.hstu_dense(*self.jagged, None, None, 0, length, 0.0, "jagged", self.offsets)]

    def by_padding(self) -> list[torch.Tensor]:
        return [self.naive(*self.padded)]

    def by_row(self) -> list[torch.Tensor]:
        return [self.naive(*qkv) for qkv in zip(*self.rows)]

    def check(self) -> None:
        """All three compute the same."""
        if self.checked:
            return
        self.checked = True
        with torch.no_grad():
            ours = self.ours()[0]
            rows = torch.cat([out.transpose(0, 1) for out in self.by_row()])
            padded = self.by_padding()[0].transpose(1, 2)
            padded = torch.cat([row[:n] for row, n in zip(padded, self.lengths.tolist())])
        tolerance = 1e-5 if self.shape.dtype == torch.float32 else 1e-2
        torch.testing.assert_close(ours, rows, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(ours, padded, rtol=tolerance, atol=tolerance)


Outputs = Callable[[], list[torch.Tensor]]


def _forward_backward(call: Outputs, inputs: list[torch.Tensor]) -> Call:
    gradients = [torch.rand_like(part) for part in torch.no_grad()(call)()]
    return lambda: torch.autograd.grad(call(), inputs, gradients)


def _of(shape: Shape) -> Iterator[Case]:
    count = batches_of(3 * sum(part.nbytes for part in Attention(shape).jagged))
    batches = [Attention(shape, seed) for seed in range(count)]
    peers: dict[str, Callable[[Attention], tuple[Outputs, list[torch.Tensor]]]] = {
        "padded": lambda attention: (attention.by_padding, attention.padded),
        "by row": lambda attention: (attention.by_row, sum(attention.rows, [])),
    }
    for peer, of in peers.items():
        padded_target = OF_PADDED if shape.uniform and shape.length == AT_LENGTH else 1.0
        both = [_forward_backward(one.ours, one.jagged) for one in batches]
        theirs_both = [_forward_backward(*of(one)) for one in batches]
        sides: list[tuple[str, Side, Side, float]] = [
            (
                "forward",
                lambda i: torch.no_grad()(batches[i].ours),
                lambda i, of=of: torch.no_grad()(of(batches[i])[0]),
                1.0,
            ),
            ("forward + backward", both.__getitem__, theirs_both.__getitem__, 3.5),
        ]
        for operator, ours, theirs, factor in sides:
            yield Case(
                operator=operator,
                shape=shape.name,
                peer=peer,
                batches=count,
                ours=ours,
                theirs=theirs,
                flops=factor * batches[0].flops(),
                target=padded_target if peer == "padded" else 1.0,
                tolerance=None,
                verify=batches[0].check,
            )


def cases() -> Iterator[Case]:
    for shape in SHAPES:
        yield from _of(shape)
