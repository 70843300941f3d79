"""The optimizers that are fused with the backward pass.

Gradients of the same row are added up first (in float32, in the order of the batch), then the row takes one step. Rows
outside the batch stay as they are, also where the optimizer has momentum or weight decay. The kinds, with their
formulas, are rows of hybrid_torchrec/kinds.py.

``weight_decay`` is added to the gradient as weight_decay * w where the row says decay_is_gradient (as in torch.optim),
else to the step's direction u: w -= lr * (u + weight_decay * w).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

from hybrid_torchrec.kinds import OPTIMIZERS, OptimizerKind

KINDS: Mapping[str, OptimizerKind] = OPTIMIZERS
OF_THE_KIND = (math.nan, math.nan)  # betas that are not given
UNUSED_BETAS = (0.9, 0.999)  # of kinds that have none


def kind_of(name: object) -> OptimizerKind:
    """Raises ValueError, with those that are known, for a name that is not in KINDS."""
    known = KINDS.get(name) if isinstance(name, str) else None
    if known is None:
        raise ValueError(f"unknown optimizer {name!r}; valid: {', '.join(KINDS)}")
    return known


@dataclass(frozen=True, kw_only=True)
class OptimizerSpec:
    """kind: one of KINDS; eps and betas: by default those of the kind.

    Raises ValueError for a kind that is not known and for numbers that no step can be made with.
    """

    kind: str = "sgd"
    lr: float = 0.01
    eps: float | None = None
    betas: tuple[float, float] = OF_THE_KIND
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        kind = kind_of(self.kind)
        if self.betas is OF_THE_KIND:
            object.__setattr__(self, "betas", kind.betas or UNUSED_BETAS)
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
        return (self.traits.eps or 0.0) if self.eps is None else self.eps

    @property
    def number(self) -> int:
        """The kind as ``torch.ops.hybrid_torchrec.update_rows`` has it."""
        return self.traits.number

    def state_widths(self, dim: int) -> dict[str, int]:
        """Columns of each state tensor; 0 stands for one number a row, held as (rows,)."""
        return self.traits.state_widths(dim)
