"""A group of tables beside its tables one by one."""

import pytest
import torch
from hybrid_torchrec import LFU, HashTable, Normal, OptimizerSpec, TableConfig
from hybrid_torchrec.cuda.group import TableGroup
from interpreted import DeviceTable
from test_tables import same

SIZES = (0, 4, 200)


def tables(kind: type[HashTable], optimizer: str = "adagrad", **fields: object) -> list[HashTable]:
    spec = OptimizerSpec(kind=optimizer, lr=0.1)
    return [
        kind(TableConfig(name=f"t{i}", dim=5, seed=i, optimizer=spec, initializer=Normal(), initial_capacity=size,
                         **fields))
        for i, size in enumerate(SIZES)
    ]  # fmt: skip


@pytest.mark.parametrize("optimizer", ["sgd", "rowwise_adagrad", "adam"])
def test_equal_to_its_tables(optimizer: str) -> None:
    mine, expected = tables(DeviceTable, optimizer), tables(HashTable, optimizer)
    group = TableGroup(mine)
    generator = torch.Generator().manual_seed(2)
    for lengths in ((30, 0, 17), (30, 0, 17), (1, 40, 9), (5, 5, 5)):
        ids = [(torch.rand(length, generator=generator) ** 2 * 30).long() for length in lengths]
        grads = [torch.randn(length, 5, generator=generator) for length in lengths]
        slots = group.assign(torch.cat(ids), lengths, train=True)
        rows = group.lookup(slots, lengths)
        wanted = [table.assign(part, train=True) for table, part in zip(expected, ids, strict=True)]
        assert slots.tolist() == torch.cat(wanted).tolist()
        looked_up = [table.lookup(part) for table, part in zip(expected, wanted, strict=True)]
        torch.testing.assert_close(rows.cpu(), torch.cat(looked_up), rtol=2e-6, atol=1e-6)
        group.update(slots, lengths, torch.cat(grads).to(slots.device))
        for table, part, gradients in zip(expected, wanted, grads, strict=True):
            table.update(part, gradients)
        absent = torch.arange(20, 50)
        served = group.assign(absent.repeat(3), (30, 30, 30), train=False)
        assert served.tolist() == torch.cat([t.assign(absent, train=False) for t in expected]).tolist()
    for table, other in zip(mine, expected, strict=True):
        same(table, other)


def test_limits_and_policies_of_each() -> None:
    """What needs a look at each table is left to it."""
    mine, expected = (tables(kind, max_rows=20, eviction=LFU()) for kind in (DeviceTable, HashTable))
    group = TableGroup(mine)
    for step in range(3):
        ids = torch.arange(16) * (step + 1)
        slots = group.assign(ids.repeat(3), (16, 16, 16), train=True)
        assert slots.tolist() == torch.cat([table.assign(ids, train=True) for table in expected]).tolist()
    for table, other in zip(mine, expected, strict=True):
        same(table, other)
    assert mine[0].evictions > 0


def test_tables_must_be_alike() -> None:
    with pytest.raises(ValueError, match="alike"):
        TableGroup([tables(DeviceTable)[0], tables(DeviceTable, "sgd")[0]])
    with pytest.raises(ValueError, match="one CUDA device"):
        TableGroup(tables(HashTable))
