"""mxrec::hstu_relative_gradients."""

import torch

from operator_samples import hstu_relative


def arguments(device: str) -> tuple[object, ...]:
    return (torch.ones(6, 2, 4).to(device), *hstu_relative.arguments(device, learned=False))
