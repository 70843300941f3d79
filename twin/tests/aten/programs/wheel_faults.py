"""What torch_npu's own code computes wrongly: prints the greatest difference of the gradients of a matrix times a batch
of matrices, of the matrix and of the batch, from those of the CPU; as it stands, and with the matrix expanded."""

from __future__ import annotations

import json

import torch
import torch_npu  # noqa: F401


def gradients(device: str, expanded: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(shape, generator=generator) for shape in ((3, 4), (2, 6, 4, 5))]
    weight, batch = (tensor.to(device).detach().requires_grad_() for tensor in drawn)
    product = (weight.expand(*batch.shape[:-2], *weight.shape) if expanded else weight) @ batch
    factors = torch.arange(product.numel()).reshape(product.shape).cos()
    (product * factors.to(device)).sum().backward()
    return [weight.grad.cpu(), batch.grad.cpu()]


expected = gradients("cpu", False)
print(
    json.dumps(
        {
            name: [float((a - b).abs().max()) for a, b in zip(gradients("npu:0", expanded), expected)]
            for name, expanded in (("plain", False), ("expanded", True))
        }
    )
)
