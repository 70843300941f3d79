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


Reading = tuple[Scalar, str, Origin]


class Readings:
    """Numbers that nobody looked at yet, in the order in which the steps made them."""

    def __init__(self) -> None:
        self._unread: list[Reading] = []
        self._asked: list[Reading] = []
        self._answer: _Copy | None = None

    def add(self, what: str, number: torch.Tensor, origin: Origin) -> Scalar:
        """`number` is a scalar; its batch is kept until it is read."""
        scalar = Scalar(number)
        self._unread.append((scalar, what, origin))
        return scalar

    def ask(self) -> None:
        """Has what is unread copied to the host, for `take_answer`: what the device is given after this goes on
        meanwhile."""
        self.take_answer()
        self._asked, self._unread = self._unread, []
        waiting = [scalar for scalar, _, _ in self._asked if scalar.tensor is not None]
        self._answer = _Copy(waiting) if waiting else None

    def take_answer(self) -> None:
        """Waits for what was asked; TrainingDiverged as `read`."""
        asked, answer = self._asked, self._answer
        self._asked, self._answer = [], None
        if answer is not None:
            answer.take()
        _check(asked)

    def read(self) -> None:
        """Waits for the device, once; TrainingDiverged for the first number that is not finite. None is left unread.

        RuntimeError for wrong data that kernels on an NPU found since the last read.
        """
        self.take_answer()
        unread, self._unread = self._unread, []
        waiting = [(scalar, scalar.tensor) for scalar, _, _ in unread if scalar.tensor is not None]
        _take([scalar for scalar, _ in waiting], _on_host([tensor for _, tensor in waiting]))
        _check(unread)


def _take(scalars: list[Scalar], values: list[float]) -> None:
    for scalar, value in zip(scalars, values, strict=True):
        scalar.take(value)


def _check(readings: list[Reading]) -> None:
    for scalar, what, origin in readings:
        if not math.isfinite(scalar.value):
            raise TrainingDiverged(f"{what} is {scalar.value}", origin.step, origin.users, origin.batch)


class _Copy:
    """Scalars on their way to the host."""

    def __init__(self, scalars: list[Scalar]) -> None:
        self.scalars = scalars
        self.host = torch.stack([scalar.tensor.detach().float() for scalar in scalars if scalar.tensor is not None])
        self.done: torch.cuda.Event | None = None
        if self.host.is_cuda:
            self.host = torch.empty(len(scalars), pin_memory=True).copy_(self.host, non_blocking=True)
            self.done = torch.cuda.Event()
            self.done.record()

    def take(self) -> None:
        if self.done is not None:
            self.done.synchronize()
        _take(self.scalars, self.host.tolist())


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
