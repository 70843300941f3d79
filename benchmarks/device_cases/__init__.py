"""Calls of the operators on a device: `operators_device.py` takes their times, `operators_counts.py` their counts."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from . import embedding, hstu, sparse
from .case import Case


def cases(small: bool) -> Iterator[Case]:
    """`small`: shapes that emulated devices compute in seconds."""
    torch.manual_seed(0)
    made = (sparse.sums, sparse.jagged, sparse.sparse, sparse.gathers)
    for part in (*made, embedding.lookups, embedding.updates, hstu.attention, hstu.relative, hstu.layer):
        yield from part(small)
