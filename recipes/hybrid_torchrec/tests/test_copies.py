"""copy.deepcopy: a copy trains on as the table would have, and neither sees the other."""

import copy

import pytest
import torch
from hybrid_torchrec import LFU, AdmitAfter, HashTable, Normal, OptimizerSpec, TableConfig


def train(table: HashTable, step: int) -> torch.Tensor:
    ids = torch.randint(60, (40,), generator=torch.Generator().manual_seed(step))
    rows = table.embed(table.assign(ids, train=True))
    rows.square().sum().backward()
    return rows.detach().cpu()


def made(device: str, **fields: object) -> HashTable:
    spec = OptimizerSpec(kind="adam", lr=0.1)
    return HashTable(TableConfig(name="t", dim=5, optimizer=spec, **fields), device)


@pytest.mark.parametrize(
    "fields",
    [
        {"initializer": Normal(per_id=False)},
        {"admission": AdmitAfter(sightings=4), "eviction": LFU(), "max_rows": 25},
        {"admission": AdmitAfter(sightings=4, sketch=(64, 2)), "dtype": torch.bfloat16},
    ],
    ids=["by order", "exact", "sketch"],
)
def test_a_copy_trains_on_by_itself(fields: dict, device: str) -> None:
    table = made(device, **fields)
    for step in range(4):
        train(table, step)
    table.learning_rate = 0.05
    copied = copy.deepcopy(table)
    before, _ = copied.read(copied.ids())
    ahead = [train(table, step) for step in range(4, 9)]
    after, _ = copied.read(copied.ids())
    assert torch.equal(before.weights, after.weights) and torch.equal(before.shows, after.shows)
    for expected, step in zip(ahead, range(4, 9)):
        assert torch.equal(train(copied, step), expected)
    assert len(copied) == len(table) and copied.step == table.step


def test_gradients_that_wait_are_not_copied(device: str) -> None:
    table = made(device)
    table.accumulate = True
    train(table, 0)
    with pytest.raises(RuntimeError, match="apply_gradients"):
        copy.deepcopy(table)
    table.apply_gradients()
    assert copy.deepcopy(table).updates == table.updates == 1
