"""What collections of hash tables refuse, and when: ids that are no integers, states of other optimizers, settings of
which no table can be made."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hybrid_torchrec import (
    LFU,
    AdmitAfter,
    Constant,
    HashEmbeddingBagCollection,
    HashEmbeddingBagConfig,
    HashEmbeddingCollection,
    HashEmbeddingConfig,
    HashTable,
    Initializer,
    OptimizerSpec,
    TableConfig,
    use_hash_tables,
)
from hybrid_torchrec.distributed import HashEmbeddingBagCollectionSharder
from hybrid_torchrec.optimizers import KINDS
from torch import nn
from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, EmbeddingCollection, EmbeddingConfig, KeyedJaggedTensor
from torchrec.distributed.types import ParameterSharding, ShardingEnv

Made = Callable[..., nn.Module]


def bags(**fields: object) -> HashEmbeddingBagCollection:
    given = {"name": "t", "embedding_dim": 4, "num_embeddings": 9, "feature_names": ["f", "g"], **fields}
    return HashEmbeddingBagCollection([HashEmbeddingBagConfig(**given)])


def sequences(**fields: object) -> HashEmbeddingCollection:
    given = {"name": "t", "embedding_dim": 4, "num_embeddings": 9, "feature_names": ["f", "g"], **fields}
    return HashEmbeddingCollection([HashEmbeddingConfig(**given)])


def sharded(**fields: object) -> nn.Module:
    shard = ShardMetadata(shard_offsets=[0, 0], shard_sizes=[9, 4], placement="rank:0/cpu")
    plan = {"t": ParameterSharding("table_wise", "fused", [0], EnumerableShardingSpec([shard]))}
    return HashEmbeddingBagCollectionSharder().shard(
        bags(**fields), plan, ShardingEnv.from_local(1, 0), torch.device("cpu")
    )


def features(values: torch.Tensor) -> KeyedJaggedTensor:
    return KeyedJaggedTensor(["f", "g"], values, lengths=torch.tensor([2, 0, 1, len(values) - 3]))


ODD = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", ODD)
@pytest.mark.parametrize("made", [bags, sequences, sharded])
def test_ids_that_are_no_integers_are_refused(made: Made, dtype: torch.dtype) -> None:
    """16,777,217 is the first id that a float32 does not hold. torchrec's own collections take none but bool either."""
    collection = made()
    ids = torch.tensor([5, 16_777_217, 3, 5]).to(dtype)
    with pytest.raises(TypeError, match=rf"table t: ids must be integers .*got {dtype}; convert"):
        output = collection(features(ids))
        output.wait() if hasattr(output, "wait") else None
    tables = [part.table for module in collection.modules() if hasattr(module, "parts") for part in module.parts]
    assert [len(table) for table in tables] == [0]
    if dtype == torch.bool:
        return
    static = EmbeddingBagCollection(
        [EmbeddingBagConfig(name="t", embedding_dim=4, num_embeddings=9, feature_names=["f", "g"])]
    )
    with pytest.raises(RuntimeError, match="scalar type"):
        static(features(ids))


def test_ids_are_refused_where_several_ranks_exchange_them() -> None:
    from hybrid_torchrec.distributed.sharded import ShardedHashModule

    module = sharded()
    module._world_size = 2  # what follows needs the other rank, and is not reached
    with pytest.raises(TypeError, match="table t: ids must be integers"):
        ShardedHashModule.input_dist(module, module.create_context(), features(torch.tensor([5.5, 1.0, 3.0, 5.0])))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
@pytest.mark.parametrize("made", [bags, sequences])
def test_every_type_of_integers_is_taken(made: Made, dtype: torch.dtype) -> None:
    collection = made()
    collection(features(torch.tensor([5, 100, 3, 5]).to(dtype)))
    (table,) = collection.tables()["t"].parts
    assert sorted(table.table.ids().tolist()) == [3, 5, 100]


def test_a_batch_of_no_ids_has_no_type() -> None:
    empty = KeyedJaggedTensor(["f", "g"], torch.empty(0), lengths=torch.zeros(4, dtype=torch.int64))
    assert bags()(empty).values().tolist() == [[0.0] * 8] * 2


def trained(made: Made, kind: str) -> nn.Module:
    collection = made(optimizer=OptimizerSpec(kind=kind, lr=0.1), initializer=Constant(value=1.0))
    for _ in range(2):
        output = collection(features(torch.tensor([5, 7, 3, 5])))
        (output.wait() if hasattr(output, "wait") else output).values().sum().backward()
    return collection


@pytest.mark.parametrize("saved", KINDS)
@pytest.mark.parametrize("loading", KINDS)
@pytest.mark.parametrize("made", [bags, sharded])
def test_a_state_of_another_optimizer_is_refused(made: Made, saved: str, loading: str) -> None:
    """With the keys that differ, also with strict=False, and with the rows left as they were."""
    state = trained(made, saved).state_dict()
    other = trained(made, loading)
    before = {key: value.clone() for key, value in other.state_dict().items()}
    if KINDS[saved].states == KINDS[loading].states:
        assert not any(other.load_state_dict(state))
        for key, value in other.state_dict().items():
            assert torch.equal(value, state[key]), key
        return
    more = KINDS[saved].moments > KINDS[loading].moments
    fewer = KINDS[saved].moments < KINDS[loading].moments
    message = "momentum" if more or fewer else "state momentum1 of shape"
    with pytest.raises(RuntimeError, match=message) as caught:
        other.load_state_dict(state)
    if more:
        assert "Unexpected key(s)" in str(caught.value) and f"which {loading} has not" in str(caught.value)
    if fewer:
        assert "Missing key(s)" in str(caught.value)
    else:
        with pytest.raises(RuntimeError):
            other.load_state_dict(state, strict=False)
    for key, value in other.state_dict().items():
        assert torch.equal(value, before[key]), key


@pytest.mark.parametrize("made", [bags, sharded])
def test_a_key_too_many_is_reported(made: Made) -> None:
    collection = trained(made, "sgd")
    state = {**collection.state_dict(), "embedding_bags.t.color": torch.zeros(1)}
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\).*embedding_bags.t.color"):
        collection.load_state_dict(state)
    assert collection.load_state_dict(state, strict=False).unexpected_keys == ["embedding_bags.t.color"]


@pytest.mark.parametrize("made", [bags, sharded])
@pytest.mark.parametrize("key", ["weight", "clock"])
def test_rows_that_do_not_fit_replace_nothing(made: Made, key: str) -> None:
    collection = trained(made, "adam")
    before = {name: value.clone() for name, value in collection.state_dict().items()}
    state = dict(before)
    state[f"embedding_bags.t.{key}"] = before[f"embedding_bags.t.{key}"][..., :1].clone()
    with pytest.raises(RuntimeError, match="table 't'"):
        collection.load_state_dict(state)
    for name, value in collection.state_dict().items():
        assert torch.equal(value, before[name]), name


class Plain(nn.Module):
    """A model with torchrec's own collections and configs."""

    def __init__(self) -> None:
        super().__init__()
        bag = EmbeddingBagConfig(name="users", embedding_dim=4, num_embeddings=9, feature_names=["f"])
        rows = EmbeddingConfig(name="pages", embedding_dim=4, num_embeddings=9, feature_names=["g"])
        self.pooled = EmbeddingBagCollection([bag], device=torch.device("meta"))
        self.rows = EmbeddingCollection([rows], device=torch.device("meta"))


def test_a_model_without_hash_configs_is_not_left_static_silently() -> None:
    with pytest.raises(ValueError, match=r"Plain has only static tables \(users, pages\).*HashEmbeddingBagConfig"):
        use_hash_tables(Plain())
    with pytest.raises(ValueError, match="EmbeddingBagCollection has only static tables"):
        use_hash_tables(Plain().pooled)
    with pytest.raises(ValueError, match="Linear has no EmbeddingBagCollection or EmbeddingCollection"):
        use_hash_tables(nn.Linear(2, 2))


def test_static_collections_stay_beside_hash_tables() -> None:
    model = Plain()
    config = HashEmbeddingBagConfig(name="t", embedding_dim=4, num_embeddings=9, feature_names=["f"])
    model.hashed = EmbeddingBagCollection([config], device=torch.device("meta"))
    assert use_hash_tables(model) is model and use_hash_tables(model) is model
    assert type(model.hashed) is HashEmbeddingBagCollection and type(model.pooled) is EmbeddingBagCollection


WRONG = [
    ({"optimizer": torch.optim.Adam}, TypeError, r"OptimizerSpec\(kind='adam'.*got <class 'torch.optim.adam.Adam'>"),
    ({"optimizer": "adam"}, TypeError, r"OptimizerSpec\(kind='adam'"),
    ({"optimizer": OptimizerSpec}, TypeError, r"an object, not the class: OptimizerSpec\(\)"),
    ({"initializer": torch.nn.init.zeros_}, TypeError, "one of Constant, Uniform"),
    ({"init_fn": 0.5}, TypeError, "init_fn must be a function"),
    ({"admission": 2}, TypeError, "one of AdmitAll, AdmitAfter"),
    ({"admission": None}, TypeError, "one of AdmitAll, AdmitAfter"),
    ({"eviction": "lru", "max_rows": 9}, TypeError, "one of LFU, LRU"),
    ({"eviction": LFU()}, ValueError, "LFU evicts at max_rows, which is None"),
    ({"max_rows": 0}, ValueError, "max_rows must be at least 1"),
    ({"max_rows": 1e6}, ValueError, "max_rows must be an integer"),
    ({"max_rows": "9"}, ValueError, "max_rows must be an integer"),
    ({"initial_capacity": -1}, ValueError, "initial_capacity must not be negative"),
    ({"initial_capacity": 2.5}, ValueError, "initial_capacity must be an integer"),
    ({"seed": 0.5}, ValueError, "seed must be an integer"),
    ({"weight_init_min": 1.0, "weight_init_max": 0.0}, ValueError, "low must not exceed high"),
]


@pytest.mark.parametrize(("fields", "error", "message"), WRONG, ids=[repr(fields) for fields, _, _ in WRONG])
@pytest.mark.parametrize("made", [bags, sequences])
def test_settings_that_cannot_work_are_reported_at_once(
    made: Made, fields: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        made(**fields)
    config = HashEmbeddingBagConfig(name="t", embedding_dim=4, num_embeddings=9, feature_names=["f", "g"])
    for name, value in fields.items():  # torchrec's configs can be changed after they were made
        setattr(config, name, value)
    with pytest.raises(error, match=message):
        HashEmbeddingBagCollection([config])


@pytest.mark.parametrize("fields", [{"sightings": 2.5}, {"sketch": (8,)}, {"sketch": (8.0, 2)}, {"sketch": (0, 2)}])
def test_admission_that_cannot_be_counted(fields: dict) -> None:
    with pytest.raises(ValueError, match="sightings|sketch"):
        AdmitAfter(**fields)


def test_a_fault_of_an_initialiser_is_its_own() -> None:
    """Not "'TableModule' object has no attribute 'whole'"."""

    class Broken(Initializer):
        def rows(self, keys: torch.Tensor, dim: int, seed: int) -> torch.Tensor:
            return keys.no_such_method()

    with pytest.raises(RuntimeError, match="table t cannot be made: .*no_such_method"):
        bags(initializer=Broken())(features(torch.tensor([5, 7, 3, 5])))


def test_a_table_says_what_it_is() -> None:
    table = HashTable(
        TableConfig(name="items", dim=4, optimizer=OptimizerSpec(kind="adam"), max_rows=9, eviction=LFU())
    )
    table.assign(torch.arange(3), train=True)
    text = repr(table)
    assert text.startswith("HashTable('items': 3 rows of at most 9, 4 x float32 on cpu, adam lr=0.01, Uniform(")
    assert "AdmitAll(" in text and "LFU(" in text and "0x" not in text
    collection = trained(bags, "sgd")
    assert "t, dim=4, torch.float32, rows=3" in repr(collection)
