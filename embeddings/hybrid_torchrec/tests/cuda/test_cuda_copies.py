"""Copies of tables as they are on a CUDA device, of every policy: what test_copies.py holds of the others."""

import copy
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hybrid_torchrec import HashTable
from hybrid_torchrec.table.copying import copy_into, copy_of
from interpreted import DeviceTable

sys.path.insert(0, str(Path(__file__).parents[1]))

from copied_tables import POLICIES, assert_holds, config, held, on_its_way, train  # noqa: E402

STEPS = range(5, 7)


def made(policy: str, **fields: object) -> DeviceTable:
    table = DeviceTable(config(initial_capacity=4, **POLICIES[policy], **fields))
    on_its_way(table, steps=5)
    return table


@pytest.mark.parametrize("policy", POLICIES)
def test_a_copy_trains_on_by_itself(policy: str) -> None:
    """In the same slots, among them those that are free now."""
    table = made(policy)
    copied, before = copy.deepcopy(table), held(table)
    assert type(copied) is DeviceTable
    assert copied.index.free_slots().tolist() == table.index.free_slots().tolist()
    ahead = [train(table, step) for step in STEPS]
    assert_holds(copied, before)
    for expected, step in zip(ahead, STEPS):
        assert torch.equal(train(copied, step), expected)
    assert_holds(copied, held(table))
    assert torch.equal(copied.ids(), table.ids())


@pytest.mark.parametrize("there", [(HashTable, DeviceTable), (DeviceTable, HashTable)])
@pytest.mark.parametrize("policy", ["by order", "after", "sketch", "lru after", "score"])
def test_a_copy_for_the_other_kind_of_table(policy: str, there: tuple[type[HashTable], type[HashTable]]) -> None:
    """As sharding and caching make them: what an index on the CPU held, one on the device does."""
    table = on_its_way(there[0](config(**POLICIES[policy])), steps=5)
    target = there[1](config(**POLICIES[policy]))
    copy_into(table, target)
    assert_holds(target, held(table))
    for step in STEPS:
        torch.testing.assert_close(train(target, step), train(table, step), rtol=1e-5, atol=1e-6)
    assert_holds(target, held(table), rtol=1e-5, atol=1e-6)


def test_a_part_of_the_ids_and_of_the_columns() -> None:
    table = made("after")
    whole, target = held(table), DeviceTable(replace(table.config, dim=2))
    copy_into(table, target, owned=lambda ids: ids % 2 == 0, columns=(3, 2))
    found = held(target)
    for name in ("ids", "sighted ids"):
        assert torch.equal(found[name], whole[name][whole[name] % 2 == 0]) and len(found[name]) > 0
    assert torch.equal(found["weights"], whole["weights"][whole["ids"] % 2 == 0][:, 3:5])
    assert torch.equal(found["counters"], whole["counters"])


def test_gradients_that_wait_are_not_copied() -> None:
    table = made("all")
    table.update(table.find(table.ids()[:1]), torch.ones(1, 6, device=table.device), apply=False)
    with pytest.raises(RuntimeError, match="apply_gradients"):
        copy_of(table)
