"""Tables of every policy on their way, and all that they hold: what copies are compared by."""

from __future__ import annotations

import torch
from hybrid_torchrec import (
    LFU,
    LRU,
    TTL,
    AdmitAfter,
    AdmitWithProbability,
    CustomScore,
    HashTable,
    Normal,
    OptimizerSpec,
    Score,
    TableConfig,
)

ADMISSIONS: dict[str, dict] = {
    "all": {},
    "by order": {"initializer": Normal(per_id=False)},
    "after": {"admission": AdmitAfter(sightings=4)},
    "sketch": {"admission": AdmitAfter(sightings=4, sketch=(64, 2))},
    "probability": {"admission": AdmitWithProbability(probability=0.3)},
}
EVICTIONS: dict[str, dict] = {
    "lfu": {"eviction": LFU(share=0.0), "max_rows": 25},
    "lru after": {"eviction": LRU(share=0.0), "max_rows": 25, "admission": AdmitAfter(sightings=3)},
    "ttl": {"eviction": TTL(steps=3, interval=2)},
    "score": {"eviction": Score(decay=0.9, share=0.0), "max_rows": 25},
    "custom": {"eviction": CustomScore(score=lambda stats: stats.shows, share=0.0), "max_rows": 25},
}
POLICIES = {**ADMISSIONS, **EVICTIONS}
COUNTERS = ("step", "updates", "insertions", "evictions", "lookups", "hits", "learning_rate", "accumulate")


def config(kind: str = "adam", **fields: object) -> TableConfig:
    return TableConfig(name="t", dim=6, optimizer=OptimizerSpec(kind=kind, lr=0.1), seed=3, **fields)


def train(table: HashTable, step: int, batch: int = 18) -> torch.Tensor:
    """A step of ids of which few are frequent, with clicks, and at times an erased row; the looked up rows."""
    generator = torch.Generator().manual_seed(step)
    ids = (torch.rand(batch, generator=generator) ** 2 * 60).long() - 5
    rows = table.embed(table.assign(ids, train=True))
    rows.square().sum().backward()
    table.add_clicks(ids[:3].unique(), torch.ones(len(ids[:3].unique())))
    if step % 3 == 1:
        table.erase(ids[4:7])
    return rows.detach().cpu()


def on_its_way(table: HashTable, steps: int = 6) -> HashTable:
    for step in range(steps):
        train(table, step)
    table.learning_rate = 0.05
    return table


def held(table: HashTable) -> dict[str, torch.Tensor]:
    """Everything but the slots, on the CPU, in an order of its own."""
    rows = table.read(table.ids())[0].to("cpu").sorted_by_id().named_tensors()
    ids, counts = table.index.sightings()
    order = torch.argsort(ids) if len(ids) else torch.arange(len(counts))
    rows["sighted ids"], rows["sightings"] = ids[order] if len(ids) else ids, counts[order]
    rows["counters"] = torch.tensor([float(getattr(table, name)) for name in COUNTERS])
    rows["default row"] = table.lookup(torch.zeros(1, dtype=torch.int64, device=table.device)).cpu()
    return rows


def assert_holds(table: HashTable, expected: dict[str, torch.Tensor], **tolerance: float) -> None:
    found = held(table)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, **(tolerance or {"rtol": 0, "atol": 0}), msg=name)
