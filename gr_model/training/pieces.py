"""This process's pieces of the dense weights, as plain tensors.

FSDP's weights are DTensors, of which every operation asks the host where they lie: AdamW, the norm of the gradient and
the moving average took it ten times what they take of plain tensors, and a GPU waits for the host that long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


class Pieces:
    """`parameters[i]` is this process's part of `weights[i]`, in the same memory: the weight itself where it is whole.

    What is updated in the parameters is updated in the weights. `refresh` must come between a backward and what reads
    the parameters' gradients, and after a state was loaded into the weights.
    """

    def __init__(self, weights: Iterable[nn.Parameter]) -> None:
        self.weights = list(weights)
        self.sharded = any(hasattr(weight, "to_local") for weight in self.weights)
        self.parameters = [nn.Parameter(_local(weight)) if _is_piece(weight) else weight for weight in self.weights]

    @torch.no_grad()
    def refresh(self) -> None:
        """The weights' gradients, and their memory, of which FSDP may have taken another."""
        for weight, parameter in zip(self.weights, self.parameters):
            if parameter is not weight:
                parameter.data = _local(weight)
                parameter.grad = None if weight.grad is None else _local(weight.grad)

    def zero_grad(self) -> None:
        for tensor in (*self.weights, *self.parameters):
            tensor.grad = None

    def of_weights(self, tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """`tensors[i]`, of the shape of `parameters[i]`, as a part of what all processes hold; in the same memory."""
        return [_like(weight, tensor) for weight, tensor in zip(self.weights, tensors, strict=True)]


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This process's part of a tensor that lies in pieces; one that is whole, as it is."""
    return _local(tensor) if _is_piece(tensor) else tensor


def _is_piece(tensor: torch.Tensor) -> bool:
    return hasattr(tensor, "to_local")


@torch.no_grad()
def _local(tensor: Any) -> torch.Tensor:
    return tensor.to_local()


def _like(weight: Any, tensor: torch.Tensor) -> torch.Tensor:
    if not _is_piece(weight):
        return tensor
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        tensor, weight.device_mesh, weight.placements, run_check=False, shape=weight.shape, stride=weight.stride()
    )
