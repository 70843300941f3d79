"""The optimizers' steps in PyTorch's operators, for any device; the formulas of hybrid_torchrec/kinds.py."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor, where

from hybrid_torchrec.optimizers import OptimizerSpec


@dataclass(frozen=True, kw_only=True)
class Step:
    """Rows w (U, D) and their gradients g (U, D), both float32, at the table's step `iteration`.

    state: tensors (C, D) or (C,) of all rows; slots: (U,), those of w.
    """

    w: Tensor
    g: Tensor
    state: dict[str, Tensor]
    slots: Tensor
    spec: OptimizerSpec
    lr: float
    iteration: int

    def moment(self, name: str) -> Tensor:
        return self.state[name].index_select(0, self.slots)

    def store(self, name: str, moment: Tensor) -> None:
        self.state[name].index_copy_(0, self.slots, moment)

    def adam_direction(self) -> Tensor:
        """Adam's step, of moments that are updated here."""
        beta1, beta2 = self.spec.betas
        first = _moving_mean(self.moment("momentum1"), self.g, beta1)
        second = _moving_mean(self.moment("momentum2"), self.g * self.g, beta2)
        self.store("momentum1", first)
        self.store("momentum2", second)
        corrected = second / (1.0 - beta2**self.iteration)
        return first / (1.0 - beta1**self.iteration) / (corrected.sqrt() + self.spec.epsilon)


def _moving_mean(mean: Tensor, value: Tensor, beta: float) -> Tensor:
    """beta * mean + (1 - beta) * value; a long mean without a product by beta: 0.999 in float32 is 1.3e-8 off."""
    rest = 1.0 - beta
    return mean + rest * (value - mean) if rest <= 0.5 else beta * mean + rest * value


def _sgd(s: Step) -> Tensor:
    return s.w - s.lr * s.g


def _adagrad(s: Step) -> Tensor:
    total = s.moment("momentum1") + s.g * s.g
    s.store("momentum1", total)
    return s.w - s.lr * s.g / (total.sqrt() + s.spec.epsilon)


def _rowwise_adagrad(s: Step) -> Tensor:
    total = s.moment("momentum1") + (s.g * s.g).mean(1)
    s.store("momentum1", total)
    return s.w - (s.lr / (total.sqrt() + s.spec.epsilon)).unsqueeze(1) * s.g


def _adam(s: Step) -> Tensor:
    return s.w - s.lr * s.adam_direction()


def _adamw(s: Step) -> Tensor:
    return s.w - s.lr * (s.adam_direction() + s.spec.weight_decay * s.w)


def _lamb(s: Step) -> Tensor:
    direction = s.adam_direction() + s.spec.weight_decay * s.w
    weight_norm = s.w.square().sum(1).sqrt()
    step_norm = direction.square().sum(1).sqrt()
    plain = (weight_norm == 0) | (step_norm == 0)
    trust = where(plain, 1.0, weight_norm / where(plain, 1.0, step_norm))
    return s.w - (s.lr * trust).unsqueeze(1) * direction


def _lion(s: Step) -> Tensor:
    beta1, beta2 = s.spec.betas
    momentum = s.moment("momentum1")
    direction = _moving_mean(momentum, s.g, beta1).sign()
    s.store("momentum1", _moving_mean(momentum, s.g, beta2))
    return s.w - s.lr * (direction + s.spec.weight_decay * s.w)


# A step returns the new rows (U, D) float32, and changes their state in place.
STEPS: Mapping[str, Callable[[Step], Tensor]] = MappingProxyType(
    {
        "sgd": _sgd,
        "adagrad": _adagrad,
        "rowwise_adagrad": _rowwise_adagrad,
        "adam": _adam,
        "adamw": _adamw,
        "lamb": _lamb,
        "lion": _lion,
    }
)
