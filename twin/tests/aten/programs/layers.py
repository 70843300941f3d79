"""Layers that models outside of recommenders use: results and gradients, against PyTorch in float64 on the CPU.

Prints the largest difference of each, as JSON.
"""

import copy
import json
import sys

import torch
import torch_npu


def largest(given: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    return max(float((a.double().cpu() - b).abs().max()) for a, b in zip(given, expected, strict=True))


def layer(module: torch.nn.Module, *shape: int) -> float:
    """Forward and backward of a layer whose first result counts."""
    x, moved = torch.randn(shape), copy.deepcopy(module).npu()
    found = []
    for net, start in ((module.double(), x.double()), (moved, x.npu())):
        start.requires_grad_()
        result = net(start)
        result = result[0] if isinstance(result, tuple) else result
        result.square().sum().backward()
        found.append([result.detach(), start.grad, *(p.grad for p in net.parameters())])
    return largest(found[1], found[0])


def rotary(factor: tuple[int, ...], dtype: torch.dtype) -> float:
    values = [v.to(dtype) for v in (torch.randn(2, 3, 4, 64), torch.randn(factor), torch.randn(factor))]
    reference = [v.double().requires_grad_() for v in values]
    x, cosine, sine = reference
    first, second = x.chunk(2, -1)
    expected = x * cosine + torch.cat((-second, first), -1) * sine
    expected.square().sum().backward()
    moved = [v.npu().requires_grad_() for v in values]
    given = torch_npu.npu_rotary_mul(*moved)
    given.square().sum().backward()
    grads = [[v.grad for v in side] for side in (moved, reference)]
    scale = max(float(g.abs().max()) for g in grads[1])
    return max(largest([given], [expected.detach()]), largest(*grads) / scale)


def main(names: list[str]) -> None:
    checks = {
        "conv2d": lambda: layer(torch.nn.Conv2d(3, 4, 3, padding=1), 2, 3, 8, 8),
        "lstm": lambda: layer(torch.nn.LSTM(4, 5, num_layers=2, batch_first=True), 3, 6, 4),
        "lstm_without_bias": lambda: layer(torch.nn.LSTM(4, 5, bias=False, bidirectional=True), 3, 6, 4),
        "gru": lambda: layer(torch.nn.GRU(4, 5), 3, 6, 4),
        "rotary_float32": lambda: max(rotary(f, torch.float32) for f in ((1, 3, 1, 64), (2, 3, 1, 64), (1, 1, 1, 64))),
        "rotary_float16": lambda: rotary((1, 3, 1, 64), torch.float16),
    }
    print(json.dumps({name: checks[name]() for name in names}))


if __name__ == "__main__":
    torch.manual_seed(1)
    main(sys.argv[1:])
