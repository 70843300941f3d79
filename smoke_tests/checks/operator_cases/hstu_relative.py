"""hstu_relative, whose bias comes from two tables and timestamps, against numpy in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from smoke_tests.checks.jagged_cases import Comparison

EDGES = [2.0, 10.0, 100.0, 5000.0]  # seconds from which on a bucket holds
TOLERANCE = 1e-5


def comparisons(device: Any) -> Iterator[Comparison]:
    import torch
    from gr_ops.time_cells import cell_starts, cells_of

    rng = np.random.default_rng(0)
    lengths, heads, dim = (150, 0, 33), 2, 16
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    q, k, v = (rng.uniform(-1, 1, (offsets[-1], heads, dim)).astype(np.float32) for _ in range(3))
    position, time = (rng.uniform(-1, 1, n).astype(np.float32) for n in (max(lengths), len(EDGES) + 1))
    times = np.cumsum(rng.integers(0, 300, offsets[-1]))
    buckets = torch.from_numpy(np.searchsorted(EDGES, cell_starts().numpy(), side="right"))
    cells = cells_of(buckets, torch.tensor([-(2**63), *map(int, EDGES)])).numpy()

    def output() -> Any:
        tables = (torch.from_numpy(x).to(device) for x in (q, k, v, position, time, times, cells, offsets))
        return torch.ops.mxrec.hstu_relative(*tables, None, None, 0, max(lengths), 0.1)

    expected = np.zeros(v.shape)
    for begin, end in zip(offsets[:-1], offsets[1:]):
        distance = np.subtract.outer(np.arange(end - begin), np.arange(end - begin))
        seconds = np.subtract.outer(times[begin:end], times[begin:end])
        bias = position[np.maximum(distance, 0)].astype(float) + time[np.searchsorted(EDGES, seconds, side="right")]
        score = np.einsum("ihd,jhd->hij", q[begin:end].astype(float), k[begin:end]) + bias
        weight = np.where(distance >= 0, 0.1 * score / (1 + np.exp(-score)), 0)
        expected[begin:end] = np.einsum("hij,jhd->ihd", weight, v[begin:end])
    yield "attention with a relative bias", output, expected.astype(np.float32), TOLERANCE
