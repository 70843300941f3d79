"""What torch_npu's own code computes wrongly: prints the greatest differences from the CPU.

Gradients of a matrix times a batch of matrices, of the matrix and of the batch, as it stands and with the matrix
expanded; the steps of a GRU over packed sequences, and those of the same sequences padded; the gradients by an
LSTM's last states of its weights in both directions, and of its input, over packed sequences.
"""

from __future__ import annotations

import copy
import json

import torch
import torch_npu  # noqa: F401
from torch import nn
from torch.nn.utils import rnn


def gradients(device: str, expanded: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(shape, generator=generator) for shape in ((3, 4), (2, 6, 4, 5))]
    weight, batch = (tensor.to(device).detach().requires_grad_() for tensor in drawn)
    product = (weight.expand(*batch.shape[:-2], *weight.shape) if expanded else weight) @ batch
    factors = torch.arange(product.numel()).reshape(product.shape).cos()
    (product * factors.to(device)).sum().backward()
    return [weight.grad.cpu(), batch.grad.cpu()]


def gru_steps() -> dict[str, float]:
    torch.manual_seed(0)
    layer, x, lengths = nn.GRU(4, 5), torch.randn(7, 3, 4), [7, 4, 2]
    expected = layer(rnn.pack_padded_sequence(x, torch.tensor(lengths)))[0].data
    moved = copy.deepcopy(layer).npu()
    packed = moved(rnn.pack_padded_sequence(x.npu(), torch.tensor(lengths)))[0].data
    padded = rnn.pack_padded_sequence(moved(x.npu())[0].cpu(), torch.tensor(lengths)).data
    return {name: float((a.cpu() - expected).abs().max()) for name, a in (("packed", packed), ("padded", padded))}


def lstm_gradients() -> dict[str, float]:
    torch.manual_seed(0)
    layer, x, found = nn.LSTM(4, 5, bidirectional=True), torch.randn(7, 3, 4), {}
    for device in ("cpu", "npu:0"):
        net, start = copy.deepcopy(layer).to(device), x.to(device).detach().requires_grad_()
        net(rnn.pack_padded_sequence(start, torch.tensor([7, 4, 2])))[1][0].square().sum().backward()
        weights = {"weight": net.weight_ih_l0, "reverse": net.weight_ih_l0_reverse}
        found[device] = {"input": start.grad.cpu(), **{name: w.grad.cpu() for name, w in weights.items()}}
    return {name: float((found["npu:0"][name] - found["cpu"][name]).abs().max()) for name in found["cpu"]}


expected = gradients("cpu", False)
print(
    json.dumps(
        {"gru": gru_steps(), "lstm": lstm_gradients()}
        | {
            name: [float((a - b).abs().max()) for a, b in zip(gradients("npu:0", expanded), expected)]
            for name, expanded in (("plain", False), ("expanded", True))
        }
    )
)
