"""A group of tables beside its tables one by one."""

import weakref

import pytest
import torch
from hybrid_torchrec import LFU, HashTable, Normal, OptimizerSpec, TableConfig
from hybrid_torchrec.backends.cuda.side_stream import SideStream
from hybrid_torchrec.backends.cuda.table_offsets import StackedDescriptors
from hybrid_torchrec.table.group import TableGroup
from interpreted import DeviceTable
from test_tables import same

SIZES = (0, 4, 200)


def tables(kind: type[HashTable], optimizer: str = "adagrad", **fields: object) -> list[HashTable]:
    spec = OptimizerSpec(kind=optimizer, lr=0.1)
    return [
        kind(
            TableConfig(
                name=f"t{i}", dim=5, seed=i, optimizer=spec, initializer=Normal(), initial_capacity=size, **fields
            )
        )
        for i, size in enumerate(SIZES)
    ]


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


@pytest.mark.parametrize("optimizer", ["rowwise_adagrad", "adam"])
def test_freed_slots_are_used_again(optimizer: str) -> None:
    """Four of eight new rows get slots that have had rows, whose sightings, weights and state are gone."""
    mine, expected = tables(DeviceTable, optimizer), tables(HashTable, optimizer)
    group = TableGroup(mine)
    for ids in (torch.arange(10), torch.arange(6, 18)):
        lengths = [len(ids)] * len(mine)
        slots = group.assign(ids.repeat(len(mine)), lengths, train=True)
        group.update(slots, lengths, torch.ones(len(slots), 5, device=slots.device))
        wanted = [table.assign(ids, train=True) for table in expected]
        assert slots.tolist() == torch.cat(wanted).tolist()
        for own, table, part in zip(mine, expected, wanted, strict=True):
            table.update(part, torch.ones(len(ids), 5))
            assert own.erase(torch.arange(2, 6)) == table.erase(torch.arange(2, 6))
    for table, other in zip(mine, expected, strict=True):
        same(table, other)


class Told(SideStream):
    """What it takes."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.taken: list[torch.Tensor] = []

    def record_use(self, *tensors: torch.Tensor) -> None:
        super().record_use(*tensors)
        self.taken += tensors


def test_memory_is_not_given_up_while_sightings_are_counted() -> None:
    """Growth gives every table other records; a table may be deleted before its last batch has been counted."""
    mine = tables(DeviceTable)
    group = TableGroup(mine)
    group._launches._side_stream = told = Told(mine[0].device)
    for size in (100, 400):
        before = len(told.taken)
        for ids in (torch.arange(size), torch.arange(size, size + 9), torch.arange(5)):  # the last grows no table
            group.assign(ids.repeat(len(mine)), [len(ids)] * len(mine), train=True)
        new = told.taken[before:]
        assert all(any(table.index.records is tensor for tensor in new) for table in mine)


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


def test_stacked_addresses_are_of_the_tables_now() -> None:
    """Were they known by the identity of tensors that are gone, another's could be taken for theirs."""
    stacked = StackedDescriptors()
    old = [torch.tensor([[1, 2]]), torch.tensor([[3, 4]])]
    first = stacked.stack(list(old))
    assert first.tolist() == [[1, 2], [3, 4]] and stacked.stack(list(old)) is first
    kept = weakref.ref(old[0])
    old[0] = torch.tensor([[5, 6]])
    assert kept() is not None
    assert stacked.stack(list(old)).tolist() == [[5, 6], [3, 4]] and kept() is None


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_bags(pooling: str, weighted: bool) -> None:
    mine, expected = tables(DeviceTable, "adagrad"), tables(HashTable, "adagrad")
    group = TableGroup(mine)
    generator = torch.Generator().manual_seed(7)
    for lengths, sizes in (((9, 0, 12), ([0, 4, 5], [0, 0], [12])), ((5, 7, 1), ([5], [2, 0, 5], [1]))):
        ids = [(torch.rand(length, generator=generator) ** 2 * 20).long() for length in lengths]
        factors = torch.rand(sum(lengths), generator=generator) if weighted else None
        grads = [torch.randn(len(own), 5, generator=generator) for own in sizes]
        bags = [len(own) for own in sizes]
        offsets = torch.tensor([0, *(size for own in sizes for size in own)]).cumsum(0).to(mine[0].device)
        slots = group.assign(torch.cat(ids), lengths, train=True)
        on_device = None if factors is None else factors.to(slots.device)
        pooled = group.lookup_pooled(slots, offsets, bags, pooling, on_device).cpu()
        joined = torch.cat(grads).to(slots.device)
        of_weights = group.sample_weight_gradients(slots, lengths, offsets, joined, pooling).cpu()
        group.update(slots, lengths, joined, offsets=offsets, bags=bags, pooling=pooling, weights=on_device)
        each = [None] * 3 if factors is None else factors.split(list(lengths))
        parts = zip(expected, ids, sizes, grads, each, pooled.split(bags), of_weights.split(list(lengths)), strict=True)
        for table, own, size, gradients, weights, got, got_gradients in parts:
            own_slots, ends = table.assign(own, train=True), torch.tensor([0, *size]).cumsum(0)
            want = table.lookup_pooled(own_slots, ends, pooling, weights)
            torch.testing.assert_close(got, want, rtol=2e-6, atol=1e-6)
            want = table.sample_weight_gradients(own_slots, ends, gradients, pooling)
            torch.testing.assert_close(got_gradients, want, rtol=2e-6, atol=1e-6)
            table.update(own_slots, gradients, offsets=ends, pooling=pooling, weights=weights)
    for table, other in zip(mine, expected, strict=True):
        same(table, other)


def test_tables_must_be_alike() -> None:
    with pytest.raises(ValueError, match="alike"):
        TableGroup([tables(DeviceTable)[0], tables(DeviceTable, "sgd")[0]])
    with pytest.raises(ValueError, match="one CUDA device"):
        TableGroup(tables(HashTable))
