"""The optimizers that are fused with the backward pass.

Gradients of the same row are added up first (in float32, in the order of the batch), then the row takes one step. Rows
outside the batch stay as they are, also where the optimizer has momentum or weight decay. With g the row's gradient, w
its values, t the number of the table's updates so far, this one included:

| kind | step |
|---|---|
| sgd | w -= lr * g |
| adagrad | m += g^2; w -= lr * g / (sqrt(m) + eps) |
| rowwise_adagrad | m += mean(g^2); w -= lr * g / (sqrt(m) + eps) |
| adam, adamw | m1 = b1 m1 + (1 - b1) g; m2 = b2 m2 + (1 - b2) g^2; u = m1 / (1 - b1^t) / (sqrt(m2 / (1 - b2^t)) + eps); w -= lr * u |
| lamb | u as adam's, plus weight_decay * w; w -= lr * ||w|| / ||u|| * u, per row; a norm of 0 makes the ratio 1 |

``weight_decay`` is added to the gradient as weight_decay * w for sgd, adagrad, rowwise_adagrad and adam (as in
torch.optim), and to the direction for adamw (w -= lr * (u + weight_decay * w), fbgemm's Adam) and lamb.
"""  # noqa: E501

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class OptimizerKind:
    """What is known of an optimizer: behaviour is read from here, and never follows from the order of the numbers.

    number: in csrc/rows/optimizer.h and backends/cuda/update_kernels.py. eps: the default. moments: tensors of state,
    the first of which has one number a row where it is rowwise. corrects_moments: by the number of the table's step.
    decay_is_gradient: weight_decay is part of the gradient, not of the step. whole_rows: the step of a row looks at all
    its columns.
    """

    number: int
    eps: float
    moments: int
    rowwise: bool = False
    corrects_moments: bool = False
    decay_is_gradient: bool = True
    whole_rows: bool = False


KINDS: Mapping[str, OptimizerKind] = MappingProxyType(
    {
        "sgd": OptimizerKind(number=0, eps=0.0, moments=0),
        "adagrad": OptimizerKind(number=1, eps=1e-10, moments=1),
        "rowwise_adagrad": OptimizerKind(number=2, eps=1e-10, moments=1, rowwise=True, whole_rows=True),
        "adam": OptimizerKind(number=3, eps=1e-8, moments=2, corrects_moments=True),
        "adamw": OptimizerKind(number=4, eps=1e-8, moments=2, corrects_moments=True, decay_is_gradient=False),
        "lamb": OptimizerKind(
            number=5, eps=1e-6, moments=2, corrects_moments=True, decay_is_gradient=False, whole_rows=True
        ),
    }
)


def kind_of(name: object) -> OptimizerKind:
    """Raises ValueError, with those that are known, for a name that is not in KINDS."""
    known = KINDS.get(name) if isinstance(name, str) else None
    if known is None:
        raise ValueError(f"unknown optimizer {name!r}; valid: {', '.join(KINDS)}")
    return known


@dataclass(frozen=True, kw_only=True)
class OptimizerSpec:
    """kind: one of KINDS; eps: by default torch.optim's of that kind; betas: of adam, adamw, lamb.

    Raises ValueError for a kind that is not known and for numbers that no step can be made with.
    """

    kind: str = "sgd"
    lr: float = 0.01
    eps: float | None = None
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        kind_of(self.kind)
        for name, value in (("lr", self.lr), ("eps", self.epsilon), ("weight_decay", self.weight_decay)):
            if not isinstance(value, Real) or not math.isfinite(value) or value < 0:
                raise ValueError(f"{self.kind}: {name} must be a number that is not negative, got {value!r}")
        if len(self.betas) != 2 or not all(isinstance(beta, Real) and 0.0 <= beta < 1.0 for beta in self.betas):
            raise ValueError(f"{self.kind}: betas must be two numbers in [0, 1), got {self.betas}")

    @property
    def traits(self) -> OptimizerKind:
        return kind_of(self.kind)

    @property
    def epsilon(self) -> float:
        return self.traits.eps if self.eps is None else self.eps

    @property
    def number(self) -> int:
        """The kind as ``torch.ops.hybrid_torchrec.update_rows`` has it."""
        return self.traits.number

    def state_widths(self, dim: int) -> dict[str, int]:
        """Columns of each state tensor; 0 stands for one number a row, held as (rows,)."""
        widths = {f"momentum{moment}": dim for moment in range(1, 1 + self.traits.moments)}
        if self.traits.rowwise:
            widths["momentum1"] = 0
        return widths
