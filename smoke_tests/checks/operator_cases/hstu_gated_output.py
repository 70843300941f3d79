"""hstu_gated_output: norm, gate, dropout, product and residual, against numpy in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from smoke_tests.checks.jagged_cases import Comparison

EPS, TOLERANCE = 1e-6, 1e-5


def comparisons(device: Any) -> Iterator[Comparison]:
    import torch

    rng = np.random.default_rng(0)
    tokens, width, dim = 183, 40, 24
    attended, u = (rng.normal(size=(tokens, width)).astype(np.float32) for _ in range(2))
    x, bias = rng.normal(size=(tokens, dim)).astype(np.float32), rng.normal(size=dim).astype(np.float32)
    weight = (rng.normal(size=(dim, width)) / width**0.5).astype(np.float32)
    keep = rng.random((tokens, width)) < 0.8

    def output() -> Any:
        tensors = (torch.from_numpy(a).to(device) for a in (attended, u, x, weight, bias, keep))
        return torch.ops.mxrec.hstu_gated_output(*tensors, 1.25, EPS)

    wide = attended.astype(float)
    centred = wide - wide.mean(1, keepdims=True)
    gated = centred / np.sqrt((centred**2).mean(1, keepdims=True) + EPS) * u * keep * 1.25
    yield "gated output", output, (x + gated @ weight.T.astype(float) + bias).astype(np.float32), TOLERANCE
