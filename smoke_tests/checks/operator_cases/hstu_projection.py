"""hstu_projection: norm, product, SiLU and split, against numpy in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from smoke_tests.checks.jagged_cases import Comparison

EPS, TOLERANCE = 1e-6, 1e-5


def comparisons(device: Any) -> Iterator[Comparison]:
    import torch

    rng = np.random.default_rng(0)
    tokens, dim, split = 183, 40, (24, 24, 16, 9)
    x = rng.normal(3, 2, (tokens, dim)).astype(np.float32)
    weight = (rng.normal(size=(dim, sum(split))) / dim**0.5).astype(np.float32)

    def output() -> Any:
        parts = torch.ops.mxrec.hstu_projection(*(torch.from_numpy(a).to(device) for a in (x, weight)), split, EPS)
        return torch.cat(list(parts), dim=1)

    wide = x.astype(float)
    centred = wide - wide.mean(1, keepdims=True)
    products = centred / np.sqrt((centred**2).mean(1, keepdims=True) + EPS) @ weight.astype(float)
    yield "projection", output, (products / (1 + np.exp(-products))).astype(np.float32), TOLERANCE
