"""Operators that mix CPU and NPU tensors: {name: the message of the refusal, or "" when it ran}."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F


def npu(*shape: int) -> torch.Tensor:
    return torch.ones(*shape).npu()


def cpu(*shape: int) -> torch.Tensor:
    return torch.ones(*shape)


def npu_indices(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.int64).npu()


def cpu_indices(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.int64)


def scalar() -> torch.Tensor:
    return torch.tensor(2.0)


def lengths() -> torch.Tensor:
    return torch.tensor([3, 2])


def pack(lengths: torch.Tensor) -> Any:
    return torch.nn.utils.rnn.pack_padded_sequence(npu(2, 3, 4), lengths, batch_first=True)


def device_one(*shape: int) -> torch.Tensor:
    return torch.ones(*shape).to("npu:1")


# A device refuses these.
ILLEGAL: dict[str, Callable[[], object]] = {
    "add": lambda: npu(3) + cpu(3),
    "add, the CPU first": lambda: cpu(3) + npu(3),
    "add, one element": lambda: npu(3) + cpu(1),
    "add, the CPU larger": lambda: npu(3)[0] + cpu(3),
    "add in place": lambda: npu(3).add_(cpu(3)),
    "add in place on the CPU": lambda: cpu(3).add_(npu(3)),
    "add in place on a CPU scalar": lambda: scalar().add_(npu(3)[0]),
    "add out": lambda: torch.add(cpu(3), cpu(3), out=npu(3)),
    "mul": lambda: npu(3) * cpu(3),
    "pow of a CPU scalar": lambda: npu(3) ** scalar(),
    "remainder of a CPU scalar": lambda: npu(3) % scalar(),
    "eq": lambda: npu(3) == cpu(3),
    "matmul": lambda: npu(3, 3) @ cpu(3, 3),
    "matmul, the CPU first": lambda: cpu(3, 3) @ npu(3, 3),
    "bmm": lambda: torch.bmm(npu(2, 3, 3), cpu(2, 3, 3)),
    "addmm": lambda: torch.addmm(cpu(3), npu(3, 3), npu(3, 3)),
    "linear weight": lambda: F.linear(npu(3, 3), cpu(3, 3)),
    "linear bias": lambda: F.linear(npu(3, 3), npu(3, 3), cpu(3)),
    "einsum": lambda: torch.einsum("ij,jk->ik", npu(3, 3), cpu(3, 3)),
    "cat": lambda: torch.cat([npu(3), cpu(3)]),
    "stack": lambda: torch.stack([npu(3), cpu(3)]),
    "stack of scalars": lambda: torch.stack([npu(3)[0], scalar()]),
    "where": lambda: torch.where(npu(3) > 0, npu(3), cpu(3)),
    "where condition": lambda: torch.where(cpu(3) > 0, npu(3), npu(3)),
    "where CPU scalar": lambda: torch.where(npu(3) > 0, npu(3), scalar()),
    "embedding indices": lambda: F.embedding(cpu_indices(2), npu(3, 4)),
    "embedding weight": lambda: F.embedding(npu_indices(2), cpu(3, 4)),
    "embedding one index": lambda: F.embedding(torch.tensor(0), npu(3, 4)),
    "embedding_bag offsets": lambda: F.embedding_bag(npu_indices(4), npu(3, 4), torch.tensor([0, 2])),
    "mse_loss": lambda: F.mse_loss(npu(3), cpu(3)),
    "binary_cross_entropy_with_logits": lambda: F.binary_cross_entropy_with_logits(npu(3), cpu(3)),
    "cross_entropy target": lambda: F.cross_entropy(npu(2, 3), cpu_indices(2)),
    "cross_entropy weight": lambda: F.cross_entropy(npu(2, 3), npu_indices(2), weight=cpu(3)),
    "layer_norm": lambda: F.layer_norm(npu(2, 3), (3,), cpu(3), cpu(3)),
    "batch_norm": lambda: F.batch_norm(npu(2, 3), cpu(3), cpu(3)),
    "conv2d": lambda: F.conv2d(npu(1, 1, 4, 4), cpu(1, 1, 2, 2)),
    "gather": lambda: npu(3, 3).gather(0, cpu_indices(1, 3)),
    "scatter": lambda: npu(3, 3).scatter(0, npu_indices(1, 3), cpu(1, 3)),
    "index_select": lambda: npu(3, 3).index_select(0, cpu_indices(2)),
    "index_add": lambda: npu(3, 3).index_add(0, cpu_indices(1), npu(1, 3)),
    "indices of the NPU on the CPU": lambda: cpu(3, 3)[npu_indices(2)],
    "index_put values": lambda: npu(3).index_put_((npu_indices(1),), cpu(1)),
    "masked_fill mask": lambda: npu(3).masked_fill(cpu(3) > 0, 1.0),
    "masked_select": lambda: npu(3).masked_select(cpu(3) > 0),
    "fill on the CPU": lambda: cpu(3).fill_(npu(3)[0]),
    "lerp": lambda: torch.lerp(npu(3), cpu(3), 0.5),
    "addcmul": lambda: torch.addcmul(npu(3), npu(3), cpu(3)),
    "clamp": lambda: torch.clamp(npu(3), min=cpu(3)),
    "equal": lambda: torch.equal(npu(3), cpu(3)),
    "searchsorted": lambda: torch.searchsorted(npu(3), cpu(3)),
    "foreach": lambda: torch._foreach_add([npu(3)], [cpu(3)]),
    "foreach, the second pair": lambda: torch._foreach_add([npu(3), npu(3)], [npu(3), cpu(3)]),
    "matmul of two NPUs": lambda: npu(3, 3) @ device_one(3, 3),
}

# PyTorch takes these, on a device too.
LEGAL: dict[str, Callable[[], object]] = {
    "add a CPU scalar": lambda: npu(3) + scalar(),
    "add to a CPU scalar": lambda: scalar() + npu(3),
    "subtract from a CPU scalar": lambda: scalar() - npu(3),
    "multiply by a CPU scalar in place": lambda: npu(3).mul_(scalar()),
    "divide by a CPU scalar": lambda: npu(3) / scalar(),
    "multiply two scalars": lambda: npu(3)[0] * scalar(),
    "compare with a CPU scalar": lambda: npu(3) > scalar(),
    "maximum of a CPU scalar": lambda: torch.maximum(npu(3), scalar()),
    "numbers in where": lambda: torch.where(npu(3) > 0, 1.0, 0.0),
    "CPU indices": lambda: npu(3, 3)[cpu_indices(2)],
    "a CPU mask": lambda: npu(3)[cpu(3) > 0],
    "one CPU index": lambda: npu(3, 3)[torch.tensor(1)],
    "index_put at CPU indices": lambda: npu(3).index_put_((cpu_indices(1),), npu(1)),
    "assign a CPU slice": lambda: npu(3).__setitem__(slice(0, 2), cpu(2)),
    "copy to the NPU": lambda: npu(3).copy_(cpu(3)),
    "copy to the CPU": lambda: cpu(3).copy_(npu(3)),
    "masked_fill with a CPU value": lambda: npu(3).masked_fill(npu(3) > 0, scalar()),
    "index_fill with a CPU value": lambda: npu(3, 3).index_fill(0, npu_indices(1), scalar()),
    "fill with a CPU value": lambda: npu(3).fill_(scalar()),
    "to another": lambda: cpu(3).to(npu(3)),
    "type_as": lambda: cpu(3).type_as(npu(3)),
    "expand_as": lambda: npu(1).expand_as(cpu(3)),
    "foreach of a CPU scalar": lambda: torch._foreach_mul([npu(3)], scalar()),
    "foreach of a list on each device": lambda: torch._foreach_add([npu(3), cpu(3)], [npu(3), cpu(3)]),
    "foreach of CPU numbers": lambda: torch._foreach_addcmul([npu(3)], [npu(3)], [npu(3)], cpu(1)),
    "foreach copy": lambda: torch._foreach_copy_([npu(3)], [cpu(3)]),
    "lengths of a packed sequence": lambda: pack(lengths()),
    "a packed sequence padded": lambda: torch.nn.utils.rnn.pad_packed_sequence(pack(lengths())),
    "optimizer with steps on the CPU": lambda: step(torch.optim.Adam),
    "a gradient of a CPU scalar": lambda: (scalar().requires_grad_() * npu(3)).sum().backward(),
}

# The host reads these, so they must not be on the device.
ON_HOST: dict[str, Callable[[], object]] = {
    "lengths of a packed sequence on the NPU": lambda: pack(lengths().npu()),
    "foreach of numbers on the NPU": lambda: torch._foreach_addcmul([npu(3)], [npu(3)], [npu(3)], npu(1)),
}


def step(optimizer: Any) -> None:
    weight = npu(3).requires_grad_()
    weight.square().sum().backward()
    optimizer([weight], lr=0.1, foreach=True).step()


def outcome(case: Callable[[], object]) -> str:
    try:
        case()
        torch.npu.synchronize()
    except (RuntimeError, ValueError) as refusal:
        return str(refusal) or "refused without a word"
    return ""


if __name__ == "__main__":
    import torch_npu  # noqa: F401

    print(json.dumps({name: outcome(case) for name, case in {**ILLEGAL, **LEGAL, **ON_HOST}.items()}))
