"""Gradients that wait for their optimizer step (gradient accumulation)."""

from dataclasses import replace

import torch

from hybrid_torchrec.backends.base import Gradient
from hybrid_torchrec.backends.ids import NONE
from hybrid_torchrec.host_copies import on_host


class PendingGradients:
    """Gradients in the order in which they came; joined, they are one."""

    def __init__(self) -> None:
        self._waiting: list[Gradient] = []

    @property
    def empty(self) -> bool:
        return not self._waiting

    def add(self, gradient: Gradient) -> None:
        self._waiting.append(gradient)

    def slots(self) -> torch.Tensor:
        """Slots whose gradients wait, on the CPU."""
        return torch.cat([NONE, *(on_host(gradient.slots) for gradient in self._waiting)])

    def drop(self, slots: torch.Tensor) -> None:
        """Gradients of these slots (on the CPU) go to the default row, which learns nothing."""
        for i, gradient in enumerate(self._waiting):
            gone = torch.isin(gradient.slots, slots.to(gradient.slots.device))
            self._waiting[i] = replace(gradient, slots=torch.where(gone, 0, gradient.slots))

    def take(self) -> Gradient | None:
        """All of them as one, and none is left."""
        waiting, self._waiting = self._waiting, []
        if len(waiting) <= 1:
            return waiting[0] if waiting else None
        return _joined([_as_bags(gradient) for gradient in waiting])


def _as_bags(gradient: Gradient) -> Gradient:
    """As the gradient of sums of bags, with a factor for each slot."""
    count, device = gradient.slots.shape[0], gradient.slots.device
    if gradient.offsets is None:
        offsets = torch.arange(count + 1, device=device)
    else:
        offsets = gradient.offsets
    samples = torch.ones(count, device=device) if gradient.samples is None else gradient.samples.float()
    if gradient.mean and gradient.offsets is not None:
        lengths = offsets[1:] - offsets[:-1]
        samples = samples * torch.repeat_interleave(1.0 / lengths.float(), lengths, output_size=count)
    return Gradient(slots=gradient.slots, values=gradient.values.float(), offsets=offsets, samples=samples)


def _joined(gradients: list[Gradient]) -> Gradient:
    offsets = [torch.zeros(1, dtype=torch.int64, device=gradients[0].slots.device)]
    for gradient in gradients:
        assert gradient.offsets is not None
        offsets.append(offsets[-1][-1] + gradient.offsets[1:])
    samples = [gradient.samples for gradient in gradients if gradient.samples is not None]
    return Gradient(
        slots=torch.cat([gradient.slots for gradient in gradients]),
        values=torch.cat([gradient.values for gradient in gradients]),
        offsets=torch.cat(offsets),
        samples=torch.cat(samples),
    )
