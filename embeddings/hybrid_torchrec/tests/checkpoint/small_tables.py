"""Small tables, their training, and comparison row by row: what the tests of checkpoints share."""

from __future__ import annotations

import torch
from hybrid_torchrec.initializers import Normal
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.policies import LFU, AdmissionPolicy, AdmitAll, EvictionPolicy
from hybrid_torchrec.table import HashTable, RowBatch, TableConfig

DIM = 6
EDGES = [0, -1, 2**63 - 1, -(2**63)]


def make_table(
    kind: str = "adam",
    dtype: torch.dtype = torch.float32,
    *,
    name: str = "user",
    max_rows: int | None = None,
    admission: AdmissionPolicy | None = None,
    eviction: EvictionPolicy | None = None,
    per_id: bool = True,
    dim: int = DIM,
    seed: int = 3,
    device: str = "cpu",
) -> HashTable:
    if max_rows is not None and eviction is None:
        eviction = LFU(share=0.0)
    config = TableConfig(
        name=name,
        dim=dim,
        dtype=dtype,
        optimizer=OptimizerSpec(kind=kind, lr=0.1),
        initializer=Normal(std=0.5, per_id=per_id),
        admission=admission or AdmitAll(),
        eviction=eviction,
        max_rows=max_rows,
        initial_capacity=8,
        seed=seed,
    )
    return HashTable(config, device)


def batch(step: int, *, ids: int = 40, of: int = 120, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """ids (L,) of step, some of them twice, the edges of int64 among them; and the gradients of their rows (L, D)."""
    random = torch.Generator().manual_seed(1000 * seed + step)
    known = torch.randint(0, of, (ids,), generator=random) * 0x9E3779B97F4A7 - 5
    known[: len(EDGES)] = torch.tensor(EDGES)[torch.randperm(len(EDGES), generator=random)]
    return known, torch.randn(ids, DIM, generator=random)


def train(table: HashTable, step: int, *, owns: object = None, **kept: int) -> None:
    """One training step on the batch of `step`; owns(ids) -> bool (L,) keeps the ids of one shard."""
    ids, gradients = batch(step, **kept)
    if callable(owns):
        mine = owns(ids)
        ids, gradients = ids[mine], gradients[mine]
    table.update(table.assign(ids, train=True), gradients.to(table.device))


def all_rows(table: HashTable) -> RowBatch:
    return table.read(table.ids())[0].to("cpu").sorted_by_id()


def assert_same_rows(found: RowBatch, expected: RowBatch, *, but: tuple[str, ...] = ()) -> None:
    """Bit by bit."""
    found, expected = found.sorted_by_id(), expected.sorted_by_id()
    assert torch.equal(found.ids, expected.ids), (len(found), len(expected))
    theirs = expected.named_tensors()
    for name, tensor in found.named_tensors().items():
        if name not in but:
            assert tensor.dtype == theirs[name].dtype and torch.equal(tensor, theirs[name]), name


def assert_same_table(found: HashTable, expected: HashTable) -> None:
    assert_same_rows(all_rows(found), all_rows(expected))
    for name in ("step", "updates", "insertions", "evictions"):
        assert getattr(found, name) == getattr(expected, name), name
    for mine, theirs in zip(found.index.sightings(), expected.index.sightings(), strict=True):
        assert torch.equal(mine, theirs)
