"""Lookup and fused update in PyTorch's operators, for every device. The reference of the other back ends."""

from collections.abc import Callable

import torch
from torch import Tensor

from hybrid_torchrec.backends.rounding import drawn_bits, round_stochastically
from hybrid_torchrec.optimizers import OptimizerSpec

State = dict[str, Tensor]


def bag_of_each(offsets: torch.Tensor, count: int) -> torch.Tensor:
    """The bag of each of `count` slots; offsets (B + 1,) int64; returns (count,) int64."""
    lengths = offsets[1:] - offsets[:-1]
    bags = torch.arange(lengths.shape[0], device=offsets.device)
    return torch.repeat_interleave(bags, lengths, output_size=count)


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
    distinct, inverse = torch.unique(slots, return_inverse=True)
    sums = torch.zeros((distinct.shape[0], rows.shape[1]), device=rows.device).index_add_(0, inverse, rows)
    real = distinct != 0
    return distinct[real], sums[real]


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
    """One step of distinct slots (U,) with their gradients g (U, D) float32 (hybrid_torchrec/optimizers.py).

    rounding: the seed of stochastic rounding; None: to nearest. Raises ValueError, with nothing changed, for a kind of
    optimizer that has no step here.
    """
    step = _STEPS.get(spec.kind)
    if step is None:
        raise ValueError(f"unknown optimizer {spec.kind!r}; valid: {', '.join(_STEPS)}")
    w = weights.index_select(0, slots).float()
    if spec.weight_decay and spec.traits.decay_is_gradient:
        g = g + spec.weight_decay * w
    w = step(w, state, slots, g, spec, lr, iteration)
    if rounding is None or weights.dtype == torch.float32:
        stored = w.to(weights.dtype)
    else:
        stored = round_stochastically(w, drawn_bits(rounding, iteration, slots, w.shape[1]), weights.dtype)
    weights.index_copy_(0, slots, stored)


def _sgd(w: Tensor, state: State, slots: Tensor, g: Tensor, spec: OptimizerSpec, lr: float, iteration: int) -> Tensor:
    return w - lr * g


def _adagrad(
    w: Tensor, state: State, slots: Tensor, g: Tensor, spec: OptimizerSpec, lr: float, iteration: int
) -> Tensor:
    m = state["momentum1"].index_select(0, slots) + g * g
    state["momentum1"].index_copy_(0, slots, m)
    return w - lr * g / (m.sqrt() + spec.epsilon)


def _rowwise_adagrad(
    w: Tensor, state: State, slots: Tensor, g: Tensor, spec: OptimizerSpec, lr: float, iteration: int
) -> Tensor:
    m = state["momentum1"].index_select(0, slots) + (g * g).mean(1)
    state["momentum1"].index_copy_(0, slots, m)
    return w - (lr / (m.sqrt() + spec.epsilon)).unsqueeze(1) * g


def _adam(w: Tensor, state: State, slots: Tensor, g: Tensor, spec: OptimizerSpec, lr: float, iteration: int) -> Tensor:
    return w - lr * _direction(state, slots, g, spec, iteration)


def _adamw(w: Tensor, state: State, slots: Tensor, g: Tensor, spec: OptimizerSpec, lr: float, iteration: int) -> Tensor:
    return w - lr * (_direction(state, slots, g, spec, iteration) + spec.weight_decay * w)


def _lamb(w: Tensor, state: State, slots: Tensor, g: Tensor, spec: OptimizerSpec, lr: float, iteration: int) -> Tensor:
    direction = _direction(state, slots, g, spec, iteration) + spec.weight_decay * w
    weight_norm = w.square().sum(1).sqrt()
    step_norm = direction.square().sum(1).sqrt()
    plain = (weight_norm == 0) | (step_norm == 0)
    trust = torch.where(plain, 1.0, weight_norm / torch.where(plain, 1.0, step_norm))
    return w - (lr * trust).unsqueeze(1) * direction


def _direction(state: State, slots: Tensor, g: Tensor, spec: OptimizerSpec, iteration: int) -> Tensor:
    """Adam's, of moments that take their step here."""
    beta1, beta2 = spec.betas
    first = beta1 * state["momentum1"].index_select(0, slots) + (1.0 - beta1) * g
    second = beta2 * state["momentum2"].index_select(0, slots) + (1.0 - beta2) * (g * g)
    state["momentum1"].index_copy_(0, slots, first)
    state["momentum2"].index_copy_(0, slots, second)
    return first / (1.0 - beta1**iteration) / ((second / (1.0 - beta2**iteration)).sqrt() + spec.epsilon)


# A step takes and returns the rows (U, D) float32, and changes their state in place.
_STEPS: dict[str, Callable[[Tensor, State, Tensor, Tensor, OptimizerSpec, float, int], Tensor]] = {
    "sgd": _sgd, "adagrad": _adagrad, "rowwise_adagrad": _rowwise_adagrad,
    "adam": _adam, "adamw": _adamw, "lamb": _lamb,
}  # fmt: skip
