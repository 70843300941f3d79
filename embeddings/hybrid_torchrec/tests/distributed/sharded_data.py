"""Batches of three tables: the same samples for any number of ranks, as raw ids or as row numbers of static tables.

t0 has two features, one of which t2 has too; t1 is of another width in pooled models.
"""

from __future__ import annotations

import torch
from batches import Batch
from torch import Tensor
from torchrec import KeyedJaggedTensor

GLOBAL_BATCH = 12  # as many for each of 1, 2, 3 or 4 ranks
TABLES = {"t0": ["f0", "f1"], "t1": ["f2"], "t2": ["f1", "f3"]}
FEATURES = ["f0", "f1", "f2", "f3"]
FIRST_IDS = [0, -1, 2**63 - 1, -(2**63), 1, 2]


def raw_ids(rows: int) -> Tensor:
    """The id of each row of a static table; the extremes are among them."""
    generator = torch.Generator().manual_seed(5)
    others = torch.randint(-(2**62), 2**62, (rows,), generator=generator)
    others[: len(FIRST_IDS)] = torch.tensor(FIRST_IDS)
    return others


def make_batch(
    step: int, rank: int, world: int, rows: int, *, every_row: bool, static: bool, weighted: bool = False
) -> Batch:
    """Rank `rank`'s samples of the global batch of a step. every_row: each row of each table occurs in the batch."""
    generator = torch.Generator().manual_seed(1000 + step)
    ids = raw_ids(rows)
    values, lengths, weights = [], [], []
    mine = range(rank * GLOBAL_BATCH // world, (rank + 1) * GLOBAL_BATCH // world)
    for feature in FEATURES:
        for sample in range(GLOBAL_BATCH):
            count = int(torch.randint(0, 4, (1,), generator=generator))
            if every_row and feature in ("f0", "f2", "f3"):
                index = torch.arange(min(sample, rows), rows, GLOBAL_BATCH)
            else:
                # A power law: a few rows are in most batches.
                index = (torch.rand(count, generator=generator) ** 3 * rows).long()
            weight = torch.rand(index.numel(), generator=generator) + 0.5
            if sample in mine:
                values.append(index if static else ids[index])
                lengths.append(index.numel())
                weights.append(weight)
    target = torch.randn(GLOBAL_BATCH, generator=generator)
    features = KeyedJaggedTensor(
        keys=FEATURES,
        values=torch.cat(values),
        lengths=torch.tensor(lengths),
        weights=torch.cat(weights) if weighted else None,
    )
    return Batch(features, target[list(mine)])
