"""Lookup and fused update in PyTorch's operators, for every device. The reference of the other back ends."""

import torch

from hybrid_torchrec import host_copies
from hybrid_torchrec.backends.rounding import drawn_bits, round_stochastically
from hybrid_torchrec.backends.torch_steps import STEPS, Step
from hybrid_torchrec.optimizers import OptimizerSpec


def bag_of_each(offsets: torch.Tensor, count: int) -> torch.Tensor:
    """The bag of each of `count` slots; offsets (B + 1,) int64; returns (count,) int64."""
    known = host_copies.source(offsets)
    lengths = (offsets if known is None else known).diff()
    bags = torch.arange(lengths.shape[0], device=lengths.device)
    return host_copies.to_device(torch.repeat_interleave(bags, lengths, output_size=count), offsets.device)


def scales(offsets: torch.Tensor, bags: torch.Tensor, mean: bool, samples: torch.Tensor | None) -> torch.Tensor | None:
    """The factor of each slot in its bag, (L,) float32; None stands for ones."""
    factor = None if samples is None else samples.float()
    if mean:
        share = 1.0 / (offsets[1:] - offsets[:-1]).float()[bags]
        factor = share if factor is None else factor * share
    return factor


def gather(weights: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    return weights.index_select(0, slots).float()


def pool(
    weights: torch.Tensor, slots: torch.Tensor, offsets: torch.Tensor, mean: bool, samples: torch.Tensor | None
) -> torch.Tensor:
    bags = bag_of_each(offsets, slots.shape[0])
    rows = gather(weights, slots)
    factor = scales(offsets, bags, mean, samples)
    if factor is not None:
        rows = rows * factor.unsqueeze(1)
    out = torch.zeros((offsets.shape[0] - 1, weights.shape[1]), device=weights.device)
    return out.index_add_(0, bags, rows)


def sample_weight_gradients(
    weights: torch.Tensor, slots: torch.Tensor, offsets: torch.Tensor, gradients: torch.Tensor, mean: bool
) -> torch.Tensor:
    bags = bag_of_each(offsets, slots.shape[0])
    dots = (gather(weights, slots) * gradients.float()[bags]).sum(1)
    factor = scales(offsets, bags, mean, None)
    return dots if factor is None else dots * factor


def aggregate(
    slots: torch.Tensor,
    gradients: torch.Tensor,
    offsets: torch.Tensor | None,
    mean: bool,
    samples: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Distinct slots (U,) without slot 0, ascending, and the sums of their gradients (U, D) float32."""
    rows = gradients.float()
    if offsets is not None:
        bags = bag_of_each(offsets, slots.shape[0])
        factor = scales(offsets, bags, mean, samples)
        rows = rows[bags]
    else:
        factor = samples
    if factor is not None:
        rows = rows * factor.unsqueeze(1)
    distinct, inverse = _distinct(slots)
    sums = torch.zeros((distinct.shape[0] + 1, rows.shape[1]), device=rows.device).index_add_(0, inverse, rows)
    return distinct, sums[:-1]


def _distinct(slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Distinct slots (U,) but 0, ascending, and where among them each of slots (L,) is; U for slot 0.

    On the host where they are known there: how many they are makes the host wait for a device.
    """
    known = host_copies.source(slots)
    distinct, inverse = torch.unique(slots if known is None else known, return_inverse=True)
    absent = int((distinct[:1] == 0).sum())
    inverse = torch.where(inverse < absent, distinct.shape[0] - absent, inverse - absent)
    distinct = host_copies.known_on_host(distinct[absent:], slots.device)
    return distinct, host_copies.to_device(inverse, slots.device)


def update(
    weights: torch.Tensor,
    state: dict[str, torch.Tensor],
    slots: torch.Tensor,
    g: torch.Tensor,
    spec: OptimizerSpec,
    lr: float,
    iteration: int,
    rounding: int | None = None,
) -> None:
    """One step of distinct slots (U,) with their gradients g (U, D) float32 (hybrid_torchrec/kinds.py).

    rounding: the seed of stochastic rounding; None: to nearest. Raises ValueError, with nothing changed, for a kind of
    optimizer that has no step here.
    """
    step = STEPS.get(spec.kind)
    if step is None:
        raise ValueError(f"unknown optimizer {spec.kind!r}; valid: {', '.join(STEPS)}")
    w = weights.index_select(0, slots).float()
    if spec.weight_decay and spec.traits.decay_is_gradient:
        g = g + spec.weight_decay * w
    w = step(Step(w=w, g=g, state=state, slots=slots, spec=spec, lr=lr, iteration=iteration))
    if rounding is None or weights.dtype == torch.float32:
        stored = w.to(weights.dtype)
    else:
        stored = round_stochastically(w, drawn_bits(rounding, iteration, slots, w.shape[1]), weights.dtype)
    weights.index_copy_(0, slots, stored)
