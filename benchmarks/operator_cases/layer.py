"""What a layer of HSTU computes around its attention: hstu_projection and hstu_gated_output beside PyTorch's operators.

The peer is the layer as gr_model's plain PyTorch has it: layer norm, product, SiLU, split; norm, gate, dropout,
product, residual. Both get the dropout's elements. Never slower is asked for on narrow layers, which the model gives to
ours; a wide one, whose time is in PyTorch's products, stands beside them, and so do 16-bit types, which ours widens.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from .cases import Call, Case

TITLE = "HSTU layers around their attention on the CPU"
EPS, DROPPED = 1e-6, 0.2
TOKENS = 8192
# (model width, dtype, what is asked for)
SIZES = (
    (50, torch.float32, 1.0),
    (128, torch.float32, 1.0),
    (256, torch.float32, 1.0),
    (512, torch.float32, 0.0),
    (128, torch.bfloat16, 0.0),
    (128, torch.float16, 0.0),
)
Outputs = Callable[[], list[torch.Tensor]]


def _forward_backward(call: Outputs, inputs: list[torch.Tensor], gradients: list[torch.Tensor]) -> Call:
    return lambda: torch.autograd.grad(call(), inputs, gradients)


def _of(width: int, dtype: torch.dtype, target: float) -> Iterator[Case]:
    torch.manual_seed(0)

    def leaf(*shape: int) -> torch.Tensor:
        return torch.randn(shape).div(shape[-1] ** 0.5 if shape[0] == width else 1).to(dtype).requires_grad_()

    split, mxrec = [width] * 4, torch.ops.mxrec
    x, attended, u = (leaf(TOKENS, width) for _ in range(3))
    uvqk, output, bias = leaf(width, 4 * width), leaf(width, width), leaf(width)
    keep, scale = torch.rand(TOKENS, width) >= DROPPED, 1 / (1 - DROPPED)
    factor = (keep * scale).to(dtype)
    norm = lambda rows: F.layer_norm(rows, (width,), eps=EPS)  # noqa: E731
    gated_inputs = [attended, u, x, output, bias]
    operators: dict[str, tuple[Outputs, Outputs, list[torch.Tensor], float]] = {
        "hstu_projection": (
            lambda: mxrec.hstu_projection(x, uvqk, split, EPS),
            lambda: [part.contiguous() for part in F.silu(norm(x) @ uvqk).split(split, 1)],
            [x, uvqk],
            8.0 * TOKENS * width**2,
        ),
        "hstu_gated_output": (
            lambda: [mxrec.hstu_gated_output(*gated_inputs, keep, scale, EPS)],
            lambda: [x + F.linear(norm(attended) * u * factor, output, bias)],
            gated_inputs,
            2.0 * TOKENS * width**2,
        ),
    }
    for name, (ours, theirs, inputs, flops) in operators.items():
        gradients = [torch.rand_like(part) for part in theirs()]
        both = (_forward_backward(call, inputs, gradients) for call in (ours, theirs))
        calls = [
            ("forward", torch.no_grad()(ours), torch.no_grad()(theirs), 1.0),
            ("forward + backward", *both, 3.0),
        ]
        for way, one, other, factor_of_flops in calls:
            yield Case(
                operator=f"{name}, {way}",
                shape=f"{TOKENS:,} tokens, width {width}, {str(dtype)[6:]}",
                peer="PyTorch",
                ours=one,
                theirs=other,
                flops=factor_of_flops * flops,
                target=target,
                # Of sums over all tokens: PyTorch rounds each operation's result to 16 bits.
                tolerance=2e-3 if dtype == torch.float32 else 1.0,
            )


def cases() -> Iterator[Case]:
    for size in SIZES:
        yield from _of(*size)
