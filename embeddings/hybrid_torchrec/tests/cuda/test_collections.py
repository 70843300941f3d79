"""Collections whose tables share launches: the same rows and slots as one by one, and as on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hybrid_torchrec import Constant, OptimizerSpec
from hybrid_torchrec.distributed import ShardedHashEmbeddingCollection
from hybrid_torchrec.distributed.context import OwnedIds
from hybrid_torchrec.modules import (
    HashEmbeddingBagCollection,
    HashEmbeddingBagConfig,
    HashEmbeddingCollection,
    HashEmbeddingConfig,
    accumulate_gradients,
    grouping,
    hash_tables,
)
from hybrid_torchrec.policies import LFU, AdmitAfter
from hybrid_torchrec.table import HashTable
from interpreted import DEVICE, DeviceTable
from test_tables import same
from torch import Tensor, nn
from torchrec import KeyedJaggedTensor, PoolingType
from torchrec.distributed.types import (
    EnumerableShardingSpec,
    ParameterSharding,
    ShardingEnv,
    ShardingType,
    ShardMetadata,
)

Kind = Callable[..., HashTable]
# t0 has two features, one of which t2 has too; the wide one cannot be with the others.
FEATURES = {"t0": ["f0", "f1"], "t1": ["f2"], "t2": ["f1"], "wide": ["f3"]}
BATCH = 4


def fields(name: str, number: int, kind: str, more: dict[str, object]) -> dict[str, object]:
    """num_embeddings sets the range of first values, which differs from table to table."""
    spec = OptimizerSpec(kind=kind, lr=0.1)
    return {
        "name": name,
        "num_embeddings": 10 * (number + 1),
        "embedding_dim": 9 if name == "wide" else 5,
        "feature_names": FEATURES[name],
        "optimizer": spec,
        "initial_capacity": 40,
        **more,
    }


@pytest.fixture(params=["together", "one by one"])
def device_tables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Kind], None]:
    """Sets the class of the tables that are made."""
    if request.param == "one by one":
        monkeypatch.setattr(
            grouping, "_divided", lambda parts, keys: [(grouping.PartGroup([p]), [i]) for i, p in enumerate(parts)]
        )
    return lambda kind: monkeypatch.setattr("hybrid_torchrec.modules.table.HashTable", kind)


def batch(step: int, device: torch.device, weighted: bool) -> KeyedJaggedTensor:
    generator = torch.Generator().manual_seed(step)
    lengths = torch.randint(0, 4, (4 * BATCH,), generator=generator)
    count = int(lengths.sum())
    ids = (torch.rand(count, generator=generator) ** 2 * 30).long() - 3
    weights = torch.rand(count, generator=generator) + 0.5 if weighted else None
    made = KeyedJaggedTensor(keys=["f0", "f1", "f2", "f3"], values=ids, lengths=lengths, weights=weights).to(device)
    if weighted:
        made.weights().requires_grad_()
    return made


def bags(kind: str, device: torch.device, weighted: bool, more: dict[str, object]) -> nn.Module:
    pooling = {"t1": PoolingType.MEAN}
    configs = [
        HashEmbeddingBagConfig(**fields(name, i, kind, more), pooling=pooling.get(name, PoolingType.SUM))
        for i, name in enumerate(FEATURES)
    ]
    return HashEmbeddingBagCollection(configs, is_weighted=weighted, device=device)


def sequences(kind: str, device: torch.device, weighted: bool, more: dict[str, object]) -> nn.Module:
    configs = [HashEmbeddingConfig(**fields(name, i, kind, more)) for i, name in enumerate(FEATURES)]
    return HashEmbeddingCollection(configs, device=device)


def outputs(module: nn.Module, features: KeyedJaggedTensor) -> dict[str, Tensor]:
    out = module(features)
    return {
        name: out[name] if hasattr(out, "key_dict") or hasattr(out, "length_per_key") else out[name].values()
        for name in out.keys()  # noqa: SIM118 (not every output is a mapping)
    }


def train(module: nn.Module, device: torch.device, weighted: bool, unused: str = "", steps: int = 4) -> list[Tensor]:
    """What was looked up, and gradients of the weights."""
    results = []
    for step in range(steps):
        features = batch(step, device, weighted)
        looked_up = outputs(module, features)
        loss = sum((rows * rows).sum() for name, rows in looked_up.items() if name != unused)
        loss.backward()
        results += [looked_up[name].detach().cpu() for name in sorted(looked_up)]
        if weighted:
            results.append(features.weights().grad.cpu())
        module.eval()
        with torch.no_grad():
            results += [rows.cpu() for _, rows in sorted(outputs(module, batch(step + 50, device, weighted)).items())]
        module.train()
    return results


def compare(mine: nn.Module, expected: nn.Module) -> None:
    for (name, tables), others in zip(hash_tables(mine).items(), hash_tables(expected).values()):
        assert [type(table) for table in tables] == [DeviceTable], name
        same(tables[0], others[0])


def groups(module: nn.Module) -> list[list[int]]:
    return [numbers for _, numbers in module._table_groups._groups]


@pytest.mark.parametrize(
    ("make", "kind", "weighted"),
    [(bags, "adagrad", False), (bags, "adam", True), (sequences, "rowwise_adagrad", False), (sequences, "sgd", False)],
)
def test_equal_to_tables_of_the_cpu(make, kind: str, weighted: bool, device_tables, request) -> None:
    together_now = "together" in request.node.callspec.params["device_tables"]
    expected = make(kind, torch.device("cpu"), weighted, {})
    want = train(expected, torch.device("cpu"), weighted)
    device_tables(DeviceTable)
    mine = make(kind, DEVICE, weighted, {})
    for got, wanted in zip(train(mine, DEVICE, weighted), want, strict=True):
        torch.testing.assert_close(got, wanted, rtol=2e-5, atol=2e-6)
    compare(mine, expected)
    if together_now:
        assert groups(mine) == ([[0, 2], [1], [3]] if make is bags else [[0, 1, 2], [3]])


@pytest.mark.parametrize("case", ["frozen", "unused", "rates", "evicted", "admitted", "accumulated", "small"])
def test_what_the_tables_of_a_group_do_apart(case: str, device_tables) -> None:
    """One table without gradients or a step, with a rate of its own; policies that look at each table."""
    more = {
        "evicted": {"max_rows": 15, "eviction": LFU()},
        "admitted": {"admission": AdmitAfter(sightings=2)},
        "small": {"initial_capacity": 0},
    }.get(case, {})
    made, results = [], []
    for kind, device in ((HashTable, torch.device("cpu")), (DeviceTable, DEVICE)):
        device_tables(kind)
        module = sequences("adam", device, False, more)
        if case == "frozen":
            module.embeddings["t1"].weight.requires_grad_(False)
        if case == "rates":
            for number, group in enumerate(module.fused_optimizer.param_groups):
                group["lr"] = 0.05 * (number + 1)
        if case == "accumulated":
            with accumulate_gradients(module):
                train(module, device, False, steps=1)
        results.append(train(module, device, False, unused="f2" if case == "unused" else ""))
        made.append(module)
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-6)
    compare(made[1], made[0])
    tables = [tables[0] for tables in hash_tables(made[1]).values()]
    if case == "unused":
        assert [table.updates for table in tables] == [4, 0, 4, 4]
    if case == "evicted":
        assert tables[0].evictions > 0


def test_tables_that_move_are_grouped_anew(device_tables) -> None:
    device_tables(DeviceTable)
    module = sequences("sgd", DEVICE, False, {})
    train(module, DEVICE, False, steps=1)
    before = module._table_groups._groups[0][0]
    part = module.embeddings["t1"].whole
    part.table = DeviceTable(part.table.config)
    train(module, DEVICE, False, steps=1)
    assert module._table_groups._groups[0][0] is not before
    assert len(part.table) > 0


class Ranks:
    """A group of two, of which nothing but its size is asked."""

    def size(self) -> int:
        return 2

    def rank(self) -> int:
        return 0


def placed(config: HashEmbeddingConfig, ranks: tuple[int, ...]) -> ParameterSharding:
    rows = config.num_embeddings // len(ranks)
    shards = [
        ShardMetadata([i * rows, 0], [rows, config.embedding_dim], placement=f"rank:{rank}/{DEVICE.type}")
        for i, rank in enumerate(ranks)
    ]
    kind = ShardingType.ROW_WISE if len(ranks) > 1 else ShardingType.TABLE_WISE
    return ParameterSharding(kind.value, "fused", list(ranks), EnumerableShardingSpec(shards))


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("ids_on_host", [False, True])
def test_lookup_of_a_shard(counted: bool, ids_on_host: bool, device_tables) -> None:
    """What a rank of two does with the ids that both ask of it: t0 by rows, the others are wholly here."""
    env = ShardingEnv(world_size=2, rank=0)
    env.process_group = Ranks()
    more = {"initializer": Constant(value=0.5), **({"max_rows": 100, "eviction": LFU()} if counted else {})}
    found = []
    for kind, device in ((HashTable, torch.device("cpu")), (DeviceTable, DEVICE)):
        device_tables(kind)
        module = sequences("adagrad", torch.device("meta"), False, more)
        plan = {
            config.name: placed(config, (0, 1) if config.name == "t0" else (0,))
            for config in module.embedding_configs()
        }
        sharded = ShardedHashEmbeddingCollection(module, plan, env, None, device)
        where = torch.device("cpu") if ids_on_host else device
        assert sharded.unsharded_module_type is HashEmbeddingCollection
        results = []
        for step in range(3):
            generator = torch.Generator().manual_seed(step)
            counts = torch.randint(0, 6, (2, len(FEATURES)), generator=generator)
            ids = torch.cat([torch.randperm(12, generator=generator)[:n] for n in counts.flatten().tolist()])
            seen = torch.randint(1, 4, ids.shape, generator=generator).to(where) if counted else None
            owned = sharded._look_up(OwnedIds(ids.to(where), seen, counts))
            for group, rows in enumerate(owned.rows):
                results.append(rows.cpu())
                grads = torch.randn(rows.shape, generator=generator)
                sharded._update(owned, group, grads.to(device))
        found.append((results, sharded))
    for want, got in zip(found[0][0], found[1][0], strict=True):
        torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-6)
    compare(found[1][1], found[0][1])
    assert sum(len(tables[0]) for tables in hash_tables(found[1][1]).values()) > 20
