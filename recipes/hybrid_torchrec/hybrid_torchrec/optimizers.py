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

from dataclasses import dataclass

KINDS = ("sgd", "adagrad", "rowwise_adagrad", "adam", "adamw", "lamb")
_DEFAULT_EPS = {"sgd": 0.0, "adagrad": 1e-10, "rowwise_adagrad": 1e-10, "adam": 1e-8, "adamw": 1e-8, "lamb": 1e-6}


@dataclass(frozen=True, kw_only=True)
class OptimizerSpec:
    """kind: one of KINDS; eps: by default torch.optim's of that kind; betas: of adam, adamw, lamb."""

    kind: str = "sgd"
    lr: float = 0.01
    eps: float | None = None
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown optimizer '{self.kind}'; valid: {', '.join(KINDS)}")
        if self.lr < 0 or self.weight_decay < 0 or self.epsilon < 0:
            raise ValueError(f"lr, eps and weight_decay must not be negative, got {self}")
        if not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise ValueError(f"betas must be in [0, 1), got {self.betas}")

    @property
    def epsilon(self) -> float:
        return _DEFAULT_EPS[self.kind] if self.eps is None else self.eps

    @property
    def number(self) -> int:
        """The kind as ``torch.ops.hybrid_torchrec.update_rows`` has it."""
        return KINDS.index(self.kind)

    def state_widths(self, dim: int) -> dict[str, int]:
        """Columns of each state tensor; 0 stands for one number a row, held as (rows,)."""
        if self.kind == "sgd":
            return {}
        if self.kind == "rowwise_adagrad":
            return {"momentum1": 0}
        if self.kind == "adagrad":
            return {"momentum1": dim}
        return {"momentum1": dim, "momentum2": dim}
