"""What a layer of HSTU computes: hstu_projection, hstu_relative (relative.py) and hstu_gated_output beside PyTorch's
operators.

The peer of the first and the last is the layer as plain PyTorch has it: layer norm, product, SiLU, split; norm, gate,
dropout, product, residual. Both get the dropout's elements. As of every row, never slower is asked for, on wide layers
and in 16 bits too: gr_model leaves those to PyTorch, a user who calls the operators need not know that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from . import relative
from .cases import Call, Case, Side, batches_of

TITLE = "Operators of an HSTU layer on the CPU"
EPS, DROPPED = 1e-6, 0.2
TOKENS = 8192
SIZES = (  # model width, dtype
    (50, torch.float32),
    (128, torch.float32),
    (256, torch.float32),
    (512, torch.float32),
    (128, torch.bfloat16),
    (128, torch.float16),
)
Outputs = Callable[[], list[torch.Tensor]]


def _leaf(*shape: int, dtype: torch.dtype, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(shape).mul(scale).to(dtype).requires_grad_()


@dataclass(frozen=True)
class Layer:
    """The weights of one width, which all batches share."""

    width: int
    uvqk: torch.Tensor
    output: torch.Tensor
    bias: torch.Tensor

    @classmethod
    def of(cls, width: int, dtype: torch.dtype) -> "Layer":
        scale = width**-0.5
        return cls(
            width,
            _leaf(width, 4 * width, dtype=dtype, scale=scale / 2),
            _leaf(width, width, dtype=dtype, scale=scale),
            _leaf(width, dtype=dtype, scale=scale),
        )

    def norm(self, rows: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(rows, (self.width,), eps=EPS)


class Batch:
    """Rows of one batch, and each operator in both forms: calls that give outputs, and what they depend on."""

    def __init__(self, layer: Layer, dtype: torch.dtype) -> None:
        self.layer = layer
        self.x, self.attended, self.u = (_leaf(TOKENS, layer.width, dtype=dtype) for _ in range(3))
        self.keep, self.scale = torch.rand(TOKENS, layer.width) >= DROPPED, 1 / (1 - DROPPED)
        self.factor = (self.keep * self.scale).to(dtype)
        self.split = [layer.width] * 4
        self.gated = [self.attended, self.u, self.x, layer.output, layer.bias]

    def operators(self) -> dict[str, tuple[Outputs, Outputs, list[torch.Tensor]]]:
        mxrec, layer = torch.ops.mxrec, self.layer
        return {
            "hstu_projection": (
                lambda: mxrec.hstu_projection(self.x, layer.uvqk, self.split, EPS),
                lambda: [part.contiguous() for part in F.silu(layer.norm(self.x) @ layer.uvqk).split(self.split, 1)],
                [self.x, layer.uvqk],
            ),
            "hstu_gated_output": (
                lambda: [mxrec.hstu_gated_output(*self.gated, self.keep, self.scale, EPS)],
                lambda: [self.x + F.linear(layer.norm(self.attended) * self.u * self.factor, layer.output, layer.bias)],
                self.gated,
            ),
        }


def _forward_backward(call: Outputs, inputs: list[torch.Tensor], gradients: list[torch.Tensor]) -> Call:
    return lambda: torch.autograd.grad(call(), inputs, gradients)


def _of(width: int, dtype: torch.dtype) -> Iterator[Case]:
    torch.manual_seed(0)
    layer = Layer.of(width, dtype)
    first = Batch(layer, dtype)
    batches = [first, *(Batch(layer, dtype) for _ in range(batches_of(first.x.nbytes) - 1))]
    for name, products in (("hstu_projection", 8.0), ("hstu_gated_output", 2.0)):
        operators = [batch.operators()[name] for batch in batches]
        gradients = [torch.rand_like(part) for part in operators[0][1]()]

        def forward(form: int, operators: list = operators) -> Side:
            return lambda i: torch.no_grad()(operators[i][form])

        def both(form: int, operators: list = operators, gradients: list = gradients) -> Side:
            return lambda i: _forward_backward(operators[i][form], operators[i][2], gradients)

        for way, sides, factor in (("forward", forward, 1.0), ("forward + backward", both, 3.0)):
            yield Case(
                operator=f"{name}, {way}",
                shape=f"{TOKENS:,} tokens, width {width}, {str(dtype)[6:]}",
                peer="PyTorch",
                batches=len(batches),
                ours=sides(0),
                theirs=sides(1),
                flops=factor * products * TOKENS * width**2,
                # Of sums over all tokens: PyTorch rounds each operation's result to 16 bits.
                tolerance=2e-3 if dtype == torch.float32 else 1.0,
            )


def cases() -> Iterator[Case]:
    for size in SIZES:
        yield from _of(*size)
    yield from relative.cases()
