"""A call of mxrec::new_operator for test_every_operator.py."""

import torch


def arguments(device: str) -> tuple[object, ...]:
    x = torch.linspace(-3, 3, 35).reshape(5, 7).to(device)
    return x.requires_grad_(), 1.5
