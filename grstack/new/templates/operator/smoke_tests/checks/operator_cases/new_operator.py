"""new_operator inside an image: its results on the device, and what NumPy says."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from smoke_tests.checks.jagged_cases import Comparison


def comparisons(device: Any) -> Iterator[Comparison]:
    import torch

    for size in (1, 9, 20001):
        x = np.random.default_rng(size).normal(size=size).astype(np.float32)
        compute = partial(torch.ops.mxrec.new_operator, torch.from_numpy(x).to(device), 0.5)
        yield f"new_operator, {size}", compute, x / 2, 0.0
