"""copy.deepcopy, `.to(device)` and sharding carry all that a table holds: a copy trains on as the table would have, and
neither sees the other. Caching: torchrec_embcache's tests."""

import copy

import pytest
import torch
from copied_tables import EVICTIONS, POLICIES, assert_holds, config, held, on_its_way, train
from devices import HAS_NPU
from hybrid_torchrec import AdmitAfter, HashTable, Normal, OptimizerSpec
from hybrid_torchrec.distributed.placement import ColumnShard
from hybrid_torchrec.distributed.table import ShardedTableModule
from hybrid_torchrec.modules import HashEmbeddingBagConfig
from hybrid_torchrec.modules.table import TableModule
from hybrid_torchrec.optimizers import KINDS
from hybrid_torchrec.table.copying import copy_into, copy_of

STEPS = range(6, 12)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_copy_trains_on_by_itself(policy: str, device: str) -> None:
    table = on_its_way(HashTable(config(**POLICIES[policy]), device))
    copied, before = copy.deepcopy(table), held(table)
    assert_holds(copied, before)
    ahead = [train(table, step) for step in STEPS]
    assert_holds(copied, before)
    for expected, step in zip(ahead, STEPS):
        assert torch.equal(train(copied, step), expected)
    assert_holds(copied, held(table))
    assert torch.equal(copied.ids(), table.ids())


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_every_optimizers_state(kind: str, device: str) -> None:
    table = on_its_way(HashTable(config(kind), device))
    copied = copy.deepcopy(table)
    train(table, 6)
    train(copied, 6)
    assert_holds(copied, held(table))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_copy_rounds_as_the_table_would(dtype: torch.dtype, device: str) -> None:
    """Stochastic rounding draws by slot, so that slots, and those that come next, are part of what a table holds."""
    table = on_its_way(HashTable(config(dtype=dtype, stochastic_rounding=True, **EVICTIONS["lfu"]), device), 5)
    assert len(table.index.free_slots()) > 0
    copied = copy.deepcopy(table)
    for step in STEPS:
        train(table, step)
        train(copied, step)
    assert_holds(copied, held(table))
    assert torch.equal(copied.find(table.ids()), table.find(table.ids()))


def module_of(device: str, fields: dict) -> TableModule:
    """A trained table of a collection, with the settings of a TableConfig."""
    adam = OptimizerSpec(kind="adam", lr=0.1)
    given = HashEmbeddingBagConfig(
        name="t", embedding_dim=6, num_embeddings=100, feature_names=["f"], optimizer=adam, **fields
    )
    module = TableModule(given, torch.device(device))
    on_its_way(module.whole.table)
    return module


@pytest.mark.twin
@pytest.mark.skipif(not HAS_NPU, reason="a single kind of device")
@pytest.mark.parametrize("there", [("cpu", "npu:0"), ("npu:0", "cpu")])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_module_takes_everything_to_another_device(policy: str, there: tuple[str, str]) -> None:
    module = module_of(there[0], POLICIES[policy])
    table = module.whole.table
    module.to(there[1])
    moved = module.whole.table
    assert moved is not table and moved.device == torch.device(there[1])
    assert_holds(moved, held(table))
    for step in STEPS:
        torch.testing.assert_close(train(moved, step), train(table, step), rtol=1e-4, atol=1e-4)
    assert_holds(moved, held(table), rtol=1e-4, atol=1e-4)
    assert torch.equal(moved.ids(), table.ids())


def sharded(module: TableModule, shards: list[ColumnShard], rank: int) -> ShardedTableModule:
    return ShardedTableModule(module, shards, None, rank, None, module.weight.device)


@pytest.mark.parametrize("policy", POLICIES)
def test_one_rank_takes_everything(policy: str, device: str) -> None:
    module = module_of(device, POLICIES[policy])
    table = module.whole.table
    (part,) = sharded(module, [ColumnShard(table="t", column=0, width=6, ranks=(0,))], 0).parts
    assert_holds(part.table, held(table))
    for step in STEPS:
        torch.testing.assert_close(train(part.table, step), train(table, step))
    assert_holds(part.table, held(table), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("columns", [(6,), (2, 4)])
def test_ranks_divide_everything(policy: str, columns: tuple[int, ...], device: str) -> None:
    module = module_of(device, POLICIES[policy])
    source = held(module.whole.table)
    starts = [sum(columns[:number]) for number in range(len(columns))]
    shards = [ColumnShard(table="t", column=start, width=width, ranks=(0, 1)) for start, width in zip(starts, columns)]
    ranks = [sharded(module, shards, rank) for rank in (0, 1)]
    evicted = 0
    for number, (start, width) in enumerate(zip(starts, columns)):
        tables = [rank.parts[number].table for rank in ranks]
        found = [held(table) for table in tables]
        lost = [int(each["counters"][3] - source["counters"][3]) for each in found]
        evicted += sum(lost)
        for rank, each in enumerate(found):
            counters = source["counters"].clone()
            counters[3] += lost[rank]  # where 25 rows do not divide into two shares of 13
            assert torch.equal(each["counters"], counters)
            assert (shards[number].owner(each["ids"]) == rank).all()
            assert (shards[number].owner(each["sighted ids"]) == rank).all()
        together = torch.cat([each["ids"] for each in found])
        assert len(together) == len(source["ids"]) - sum(lost)
        at = torch.searchsorted(source["ids"], together)
        for name in ("ids", "shows", "clicks", "last_step"):
            assert torch.equal(torch.cat([each[name] for each in found]), source[name][at]), name
        for name in ("weights", "state.momentum1", "state.momentum2"):
            expected = source[name][at][:, start : start + width]
            assert torch.equal(torch.cat([each[name] for each in found]), expected), name
        if len(source["sighted ids"]):
            order = torch.cat([each["sighted ids"] for each in found]).argsort()
            assert torch.equal(torch.cat([each["sighted ids"] for each in found])[order], source["sighted ids"])
            assert torch.equal(torch.cat([each["sightings"] for each in found])[order], source["sightings"])
        else:  # a sketch's counters, on each rank
            assert all(torch.equal(each["sightings"], source["sightings"]) for each in found)
    assert evicted == 0 or "max_rows" in POLICIES[policy]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("sketch", [None, (256, 3)])
def test_an_id_that_waits_goes_on_waiting_where_it_was(ranks: int, sketch: tuple[int, int] | None, device: str) -> None:
    """After three sightings, the fourth gives a row: deepcopy, on the rank that owns the id, and by order too."""
    fields = {"admission": AdmitAfter(sightings=4, sketch=sketch), "initializer": Normal(per_id=False)}
    given = HashEmbeddingBagConfig(name="t", embedding_dim=6, num_embeddings=9, feature_names=["f"], **fields)
    module = TableModule(given, torch.device(device))
    ids = torch.arange(40)
    module.whole.table.assign(ids.repeat(3), train=True)
    assert len(module.whole.table) == 0
    shard = ColumnShard(table="t", column=0, width=6, ranks=tuple(range(ranks)))
    parts = [sharded(module, [shard], rank).parts[0].table for rank in range(ranks)]
    rows = set()
    for rank, table in enumerate([*parts, copy.deepcopy(module.whole.table)]):
        own = ids if rank == ranks else ids[shard.owner(ids) == rank]
        slots = table.assign(own, train=True)
        assert (slots > 0).all() and len(table) == len(own) > 0
        if rank < ranks:
            rows |= {tuple(row) for row in table.lookup(slots).cpu().tolist()}
    assert len(rows) == len(ids)  # by order of insertion, no two ranks give the same rows


def test_gradients_that_wait_are_neither_copied_nor_forgotten(device: str) -> None:
    table = HashTable(config(), device)
    table.accumulate = True
    train(table, 0)
    for copying in (copy.deepcopy, copy_of, lambda one: copy_into(one, HashTable(config(), device))):
        with pytest.raises(RuntimeError, match="table 't'.*apply_gradients"):
            copying(table)
    table.apply_gradients()
    assert copy.deepcopy(table).updates == table.updates == 1


def test_sightings_of_another_count_are_refused(device: str) -> None:
    fields = {"admission": AdmitAfter(sightings=4, sketch=(64, 2))}
    table = on_its_way(HashTable(config(**fields), device))
    for other in ({"admission": AdmitAfter(sightings=4)}, {**fields, "first_key": 0}):
        changed = config(**other)
        object.__setattr__(changed, "seed", 4)
        with pytest.raises(
            RuntimeError, match="table 't': sightings counted by .*sketch=\\(64, 2\\).* seed 3 cannot go"
        ):
            copy_into(table, HashTable(changed, device))
