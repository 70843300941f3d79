"""HSTU with the relative bias on an emulated NPU, in a process of its own: gradients beside the CPU's, device memory.

Prints a line of JSON.
"""

from __future__ import annotations

import json
import sys

import torch

from gr_model.config import ModelConfig
from gr_model.model import fused_ops
from gr_model.model.attention import base
from gr_model.model.hstu import HSTU
from gr_model.model.jagged import load_operators, offsets_of
from gr_model.model.sequences import Sequences


def batch(lengths: tuple[int, ...], device: str, targets: tuple[int, ...] | None = None) -> Sequences:
    generator = torch.Generator().manual_seed(1)
    times = [torch.randint(0, 10**7, (n,), generator=generator).sort().values for n in lengths]
    contexts = 2 if targets else 0
    return Sequences(
        offsets_of(torch.tensor(lengths)).to(device), torch.cat(times).to(device), lengths, targets, contexts
    )


def model(longest: int, heads: int, width: int, device: str) -> HSTU:
    torch.manual_seed(0)
    config = ModelConfig(
        dim=heads * width,
        heads=heads,
        qk_dim=width,
        value_dim=width,
        max_items=longest,
        blocks=1,
        dropout=0.0,
        attention="fused",
        relative_bias=True,
    )
    return HSTU(config).to(device)


def gradients(device: str, targets: tuple[int, ...] | None) -> list[torch.Tensor]:
    lengths = (70, 33, 31, 16, 4)
    hstu = model(80, 2, 8, device)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(sum(lengths), 16, generator=generator).to(device).requires_grad_()
    out = hstu(x, batch(lengths, device, targets))
    out.square().sum().backward()
    return [tensor.detach().cpu() for tensor in (out, x.grad, *(p.grad for p in hstu.parameters()))]


def differences(targets: tuple[int, ...] | None) -> list[float]:
    pairs = zip(gradients("npu", targets), gradients("cpu", targets), strict=True)
    return [float((there - here).norm() / here.norm()) for there, here in pairs]


def peak(length: int) -> int:
    """Bytes at peak of a step, beyond the parameters."""
    lengths = (length,) * 2
    hstu = model(length, 4, 8, "npu")
    x, sequences = torch.randn(sum(lengths), 32).to("npu").requires_grad_(), batch(lengths, "npu")
    torch.npu.synchronize()
    torch.npu.empty_cache()
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_allocated()
    hstu(x, sequences).sum().backward()
    torch.npu.synchronize()
    return int(torch.npu.max_memory_allocated() - before)


def around_the_attention() -> list[bool]:
    """Whether the rest of a layer is ours: in three types, where rows are too wide, under autocast."""
    types = [(torch.float32, 8), (torch.float16, 8), (torch.bfloat16, 8), (torch.float64, 8), (torch.float32, 2049)]
    chosen = []
    for dtype, dim in types:
        x, weight = (torch.zeros(shape, dtype=dtype, device="npu") for shape in ((2, dim), (dim, 4)))
        chosen.append(fused_ops.around_attention(x, weight, 8))
    x, weight = torch.zeros(2, 8, device="npu"), torch.zeros(8, 4, device="npu")
    with torch.autocast("npu", torch.bfloat16):
        return [*chosen, fused_ops.around_attention(x, weight, 8)]


def main() -> None:
    load_operators(torch.device("npu"))
    chosen = base.implementation(batch((3, 2), "npu"), "fused").__name__
    result: dict[str, object] = {
        "implementation": chosen,
        "differences": [differences(None), differences((5, 9, 1, 0, 1))],
    }
    result["around"] = around_the_attention()
    result["peaks"] = [peak(length) for length in map(int, sys.argv[1:])]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
