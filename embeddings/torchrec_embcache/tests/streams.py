"""Batches of ids, and training on them without a model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hybrid_torchrec.table import HashTable, RowBatch
from rows import let_writes_end
from torchrec_embcache import CachedTable

LONG = 20  # batches


def power_law(batches: int, length: int, ids: int, seed: int, exponent: float = 1.05) -> list[torch.Tensor]:
    """``batches`` tensors (length,) int64 of ``ids`` different ids in all, the r-th most frequent as r**-exponent."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.arange(1, ids + 1, dtype=torch.float64) ** -exponent
    names = torch.randint(-(2**63), 2**63 - 1, (ids,), generator=generator)
    ranks = torch.multinomial(weights, batches * length, replacement=True, generator=generator)
    return list(names[ranks].split(length))


def gradient(step: int, slots: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.randn(len(slots), dim, generator=torch.Generator().manual_seed(step))


def train(table: HashTable, batches: Sequence[torch.Tensor], *, ahead: int = 0, first: int = 0) -> torch.Tensor:
    """One update per batch with gradients that depend on the rows; returns the sum of what was looked up.

    Now and then in a long training, writes to disk end: what comes after must read them there.
    """
    total = torch.zeros(table.config.dim, dtype=torch.float64)
    sent = 0
    for step, ids in enumerate(batches):
        while ahead and sent < min(step + ahead + 1, len(batches)):
            table.prefetch(batches[sent])  # type: ignore[attr-defined]
            sent += 1
        if isinstance(table, CachedTable) and len(batches) >= LONG and step % 5 == 4:
            let_writes_end(table)
        slots = table.assign(ids, train=True)
        rows = table.lookup(slots)
        total += rows.double().sum(0)
        table.update(slots, rows * 0.1 + gradient(first + step, slots, table.config.dim))
    return total


def whole(table: HashTable) -> RowBatch:
    """All rows of a resident or cached table, by id."""
    parts = list(table.scan(1000)) if hasattr(table, "scan") else [table.read(table.ids())[0]]
    return RowBatch.concat(parts).sorted_by_id()


def assert_same(a: RowBatch, b: RowBatch) -> None:
    left, right = a.named_tensors(), b.named_tensors()
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name
