"""Losses and norms of gradients that are on the device still, and the end of a run where one is not finite.

A read makes the host wait for all that the device was given. So several steps are read at once, with one copy.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from gr_model.tasks.base import Batch
from gr_model.training.gradients import TrainingDiverged


@dataclass(frozen=True)
class Origin:
    """What a step's numbers came from: its number, from 1, and the batch of this process."""

    step: int
    users: list[int]
    batch: Batch


class Scalar:
    """A number on the device, and its value once it was read."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor: torch.Tensor | None = tensor
        self._value = float("nan")

    @property
    def known(self) -> bool:
        return self.tensor is None

    @property
    def value(self) -> float:
        """Waits for the device, unless `known`."""
        if self.tensor is not None:
            self.take(float(self.tensor.item()))
        return self._value

    def take(self, value: float) -> None:
        self._value, self.tensor = value, None


class Readings:
    """Numbers that nobody looked at yet, in the order in which the steps made them."""

    def __init__(self) -> None:
        self._unread: list[tuple[Scalar, str, Origin]] = []

    def add(self, what: str, number: torch.Tensor, origin: Origin) -> Scalar:
        """`number` is a scalar; its batch is kept until it is read."""
        scalar = Scalar(number)
        self._unread.append((scalar, what, origin))
        return scalar

    def read(self) -> None:
        """Waits for the device, once; TrainingDiverged for the first number that is not finite. None is left unread.

        RuntimeError for wrong data that kernels on an NPU found since the last read.
        """
        unread, self._unread = self._unread, []
        waiting = [(scalar, scalar.tensor) for scalar, _, _ in unread if scalar.tensor is not None]
        for (scalar, _), value in zip(waiting, _on_host([tensor for _, tensor in waiting]), strict=True):
            scalar.take(value)
        for scalar, what, origin in unread:
            if not math.isfinite(scalar.value):
                raise TrainingDiverged(f"{what} is {scalar.value}", origin.step, origin.users, origin.batch)


def _on_host(tensors: list[torch.Tensor]) -> list[float]:
    if not tensors:
        return []
    with _faults(tensors[0].device):
        if len(tensors) == 1 or tensors[0].device.type == "cpu":
            return [float(tensor.item()) for tensor in tensors]
        values: list[float] = torch.stack([tensor.float() for tensor in tensors]).tolist()
        return values


def _faults(device: torch.device) -> AbstractContextManager[None]:
    """Raises what kernels found wrong on an NPU, which has those of gr_ops; other devices do without the package."""
    if device.type != "npu":
        return nullcontext()
    from gr_ops import faults

    return faults.raised()
