"""The optimizers row by row in NumPy, float64 (hybrid_torchrec/kinds.py)."""

import numpy as np
from hybrid_torchrec import OptimizerSpec


class ReferenceTable:
    def __init__(self, weights: np.ndarray, spec: OptimizerSpec) -> None:
        self.w = weights.astype(np.float64)
        self.spec = spec
        self.m1 = np.zeros(len(weights) if spec.kind == "rowwise_adagrad" else weights.shape)
        self.m2 = np.zeros(weights.shape)
        self.t = 0

    def update(self, slots: np.ndarray, grads: np.ndarray) -> None:
        self.t += 1
        for slot in np.unique(slots):
            if slot != 0:
                self.row(slot, grads[slots == slot].astype(np.float64).sum(0))

    def row(self, r: int, g: np.ndarray) -> None:
        s, w = self.spec, self.w[r]
        if s.kind not in ("adamw", "lamb", "lion"):
            g = g + s.weight_decay * w
        if s.kind == "sgd":
            self.w[r] = w - s.lr * g
        elif s.kind == "adagrad":
            self.m1[r] += g**2
            self.w[r] = w - s.lr * g / (np.sqrt(self.m1[r]) + s.epsilon)
        elif s.kind == "rowwise_adagrad":
            self.m1[r] += np.mean(g**2)
            self.w[r] = w - s.lr * g / (np.sqrt(self.m1[r]) + s.epsilon)
        elif s.kind == "lion":
            b1, b2 = s.betas
            u = np.sign(b1 * self.m1[r] + (1 - b1) * g)
            self.m1[r] = b2 * self.m1[r] + (1 - b2) * g
            self.w[r] = w - s.lr * (u + s.weight_decay * w)
        else:
            b1, b2 = s.betas
            self.m1[r] = b1 * self.m1[r] + (1 - b1) * g
            self.m2[r] = b2 * self.m2[r] + (1 - b2) * g**2
            u = self.m1[r] / (1 - b1**self.t) / (np.sqrt(self.m2[r] / (1 - b2**self.t)) + s.epsilon)
            if s.kind != "adam":
                u = u + s.weight_decay * w
            norms = np.linalg.norm(w), np.linalg.norm(u)
            trust = norms[0] / norms[1] if s.kind == "lamb" and min(norms) > 0 else 1.0
            self.w[r] = w - s.lr * trust * u


def pooled(rows: np.ndarray, offsets: list[int], mean: bool, factors: np.ndarray | None) -> np.ndarray:
    """rows (L, D) float64; bags (B, D)."""
    scaled = rows if factors is None else rows * factors[:, None]
    bags = []
    for first, end in zip(offsets, offsets[1:]):
        total = scaled[first:end].sum(0)
        bags.append(total / (end - first) if mean and end > first else total)
    return np.array(bags).reshape(-1, rows.shape[1])
