"""Collections that are not sharded, and everything about them that needs one process."""

from __future__ import annotations

import copy

import pytest
import torch
import torchrec.optim
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from hybrid_torchrec import LRU, Constant, Normal, OptimizerSpec, Uniform
from hybrid_torchrec.modules import (
    HashEmbeddingBagCollection,
    HashEmbeddingBagConfig,
    HashEmbeddingCollection,
    HashEmbeddingConfig,
    use_hash_tables,
)
from hybrid_torchrec.modules.config import seed_of
from hybrid_torchrec.modules.optimizer import spec_of_class, spec_of_fused_params
from sharded_data import make_batch
from sharded_model import hash_model, pooling_of
from sharded_program import specs
from torch import Tensor, nn
from torchrec import DataType, EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, PoolingType
from torchrec.models.dlrm import DLRM
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward

IDS = torch.tensor([5, -1, 2**62, 5, 0, 5, -(2**63)])
ADAMW = OptimizerSpec(kind="adamw", lr=1e-3, eps=1e-8, betas=(0.5, 0.9), weight_decay=0.01)  # torch's defaults
LENGTHS = torch.tensor([2, 0, 1, 1, 2, 1])  # two features of three bags


def bags(weights: Tensor | None = None) -> KeyedJaggedTensor:
    return KeyedJaggedTensor(keys=["f", "g"], values=IDS, lengths=LENGTHS, weights=weights)


def bag_config(**fields: object) -> HashEmbeddingBagConfig:
    given = {"name": "t", "embedding_dim": 4, "num_embeddings": 10, "feature_names": ["f", "g"], **fields}
    return HashEmbeddingBagConfig(**given)


def rows_of(config: HashEmbeddingBagConfig, ids: Tensor) -> Tensor:
    """First rows, computed from the initialiser alone."""
    assert config.initializer is not None
    return config.initializer.rows(ids, config.embedding_dim, seed_of(config)).double()


@pytest.mark.parametrize("pooling", [PoolingType.SUM, PoolingType.MEAN])
@pytest.mark.parametrize("weighted", [False, True])
def test_bags_and_gradients_of_weights(pooling: PoolingType, weighted: bool) -> None:
    config = bag_config(initializer=Normal(std=1.0), pooling=pooling, optimizer=OptimizerSpec(kind="sgd", lr=0.5))
    collection = HashEmbeddingBagCollection([config], is_weighted=weighted)
    weights = torch.rand(IDS.numel(), requires_grad=True) if weighted else None
    out = collection(bags(weights))
    assert out.keys() == ["f", "g"]
    assert out.values().dtype == torch.float32

    table = rows_of(config, IDS).requires_grad_()
    factors = torch.ones(IDS.numel()).double() if weights is None else weights.detach().double()
    factors.requires_grad_()
    expected = []
    start = 0
    for length in LENGTHS.tolist():
        part = slice(start, start + length)
        total = (table[part] * factors[part].unsqueeze(1)).sum(0)
        expected.append(total / max(length, 1) if pooling == PoolingType.MEAN else total)
        start += length
    expected_out = torch.cat([torch.stack(expected[:3]), torch.stack(expected[3:])], dim=1)
    torch.testing.assert_close(out.values().double(), expected_out, rtol=1e-6, atol=1e-6)

    factor = torch.rand(3, 8)
    (out.values() * factor).sum().backward()
    (expected_out * factor.double()).sum().backward()
    if weights is not None:
        torch.testing.assert_close(weights.grad.double(), factors.grad, rtol=1e-6, atol=1e-6)
    ids = IDS.unique()
    sums = torch.stack([table.grad[id_ == IDS].sum(0) for id_ in ids])
    trained = collection.embedding_bags["t"].whole.table.read(ids)[0].weights.double()
    torch.testing.assert_close(trained, rows_of(config, ids) - 0.5 * sums, rtol=1e-6, atol=1e-6)


def test_sequences_keep_lengths_and_ids() -> None:
    tables = [
        HashEmbeddingConfig(
            name="t", embedding_dim=4, num_embeddings=10, feature_names=["f", "g"], initializer=Normal()
        ),
        HashEmbeddingConfig(name="u", embedding_dim=3, num_embeddings=10, feature_names=["g"], initializer=Normal()),
    ]
    collection = HashEmbeddingCollection(tables, need_indices=True)
    out = collection(bags())
    assert list(out) == ["f", "g@t", "g@u"]
    assert torch.equal(out["f"].lengths(), LENGTHS[:3])
    assert torch.equal(out["g@u"].weights(), IDS[3:])
    expected = tables[1].initializer.rows(IDS[3:], 3, seed_of(tables[1]))
    torch.testing.assert_close(out["g@u"].values(), expected)
    with pytest.raises(ValueError, match="embedding dimensions"):
        collection.embedding_dim()


def test_two_tables_give_an_id_different_rows() -> None:
    collection = HashEmbeddingBagCollection([bag_config(), bag_config(name="u")])
    out = collection(bags()).to_dict()
    assert not torch.allclose(out["f@t"], out["f@u"])


def test_optimizer_in_backward_goes_before_the_config() -> None:
    collection = HashEmbeddingBagCollection([bag_config(optimizer=OptimizerSpec(kind="sgd"))])
    apply_optimizer_in_backward(torch.optim.Adam, collection.parameters(), {"lr": 0.5, "eps": 1e-3})
    collection(bags()).values().sum().backward()
    table = collection.embedding_bags["t"].whole.table
    assert table.config.optimizer == OptimizerSpec(kind="adam", lr=0.5, eps=1e-3)
    # A scheduler of the optimizer that was applied sets the table's rate.
    (applied,) = collection.embedding_bags["t"].weight._in_backward_optimizers
    applied.param_groups[0]["lr"] = 0.125
    collection(bags()).values().sum().backward()
    assert table.learning_rate == 0.125


def test_placeholders_of_torchrec_can_be_applied() -> None:
    """torchrec's Adam raises in step(), which torch's hook would call."""
    collection = HashEmbeddingBagCollection([bag_config()])
    apply_optimizer_in_backward(torchrec.optim.Adam, collection.parameters(), {"lr": 0.5})
    collection(bags()).values().sum().backward()
    assert collection.embedding_bags["t"].whole.table.config.optimizer.lr == 0.5


@pytest.mark.parametrize(
    "optimizer, kwargs, expected",
    [
        (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.01}, OptimizerSpec(kind="sgd", lr=0.1, weight_decay=0.01)),
        (torch.optim.Adagrad, {}, OptimizerSpec(kind="adagrad", lr=0.01, eps=1e-10)),
        (torch.optim.AdamW, {"betas": (0.5, 0.9)}, ADAMW),
        # torch from 2.8 on has this argument, in all it may be given
        (torch.optim.Adam, {"decoupled_weight_decay": False}, OptimizerSpec(kind="adam", lr=1e-3, eps=1e-8)),
        (torch.optim.Adam, {"betas": (0.5, 0.9), "weight_decay": 0.01, "decoupled_weight_decay": True}, ADAMW),
        (torchrec.optim.RowWiseAdagrad, {"lr": 0.1, "eps": 1}, OptimizerSpec(kind="rowwise_adagrad", lr=0.1, eps=1.0)),
        (torchrec.optim.LAMB, {"lr": 0.1}, OptimizerSpec(kind="lamb", lr=0.1, eps=1e-8)),
    ],
)
def test_optimizers_of_torch_and_torchrec(optimizer: type, kwargs: dict, expected: OptimizerSpec) -> None:
    assert spec_of_class(optimizer, kwargs, "t") == expected


@pytest.mark.parametrize(
    "optimizer, kwargs, message",
    [
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, "momentum=0.9"),
        (torch.optim.Adam, {"amsgrad": True}, "amsgrad=True"),
        (torch.optim.RMSprop, {}, "RMSprop"),
        (torchrec.optim.Adam, {"max_gradient": 1.0}, "max_gradient"),
    ],
)
def test_what_no_fused_step_has_is_refused(optimizer: type, kwargs: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"table t: .*{message}"):
        spec_of_class(optimizer, kwargs, "t")


def test_fused_params() -> None:
    adam = {"optimizer": EmbOptimType.ADAM, "learning_rate": 0.5, "beta1": 0.8, "weight_decay": 0.1}
    expected = OptimizerSpec(kind="adamw", lr=0.5, eps=1e-8, betas=(0.8, 0.999), weight_decay=0.1)
    assert spec_of_fused_params(adam, "t") == expected
    assert spec_of_fused_params({"output_dtype": None}, "t") is None
    with pytest.raises(ValueError, match="max_norm"):
        spec_of_fused_params({**adam, "max_norm": 1.0}, "t")
    with pytest.raises(ValueError, match="no fused step"):
        spec_of_fused_params({"optimizer": EmbOptimType.LARS_SGD}, "t")


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"data_type": DataType.INT8}, "data_type"),
        ({"num_embeddings_post_pruning": 5}, "max_rows"),
        ({"embedding_dim": 0}, "embedding_dim"),
    ],
)
def test_configs_that_cannot_be(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bag_config(**fields)


def test_a_copied_collection_has_tables_of_its_own() -> None:
    collection = HashEmbeddingBagCollection([EmbeddingBagConfig(name="t", embedding_dim=3, num_embeddings=9)])
    features = KeyedJaggedTensor(["t"], torch.tensor([4, -4]), lengths=torch.tensor([1, 1]))
    collection(features).values().sum().backward()
    copied = copy.deepcopy(collection)
    before = copied(features).values().detach().clone()
    collection(features).values().sum().backward()
    assert torch.equal(copied(features).values(), before)
    assert not torch.equal(collection(features).values(), before)
    assert copied.fused_optimizer.param_groups[0]["params"][0] is copied.embedding_bags["t"].weight


def test_default_rows_are_distributed_as_torchrecs() -> None:
    config = bag_config(num_embeddings=400)
    collection = HashEmbeddingBagCollection([config])
    ids = torch.arange(5000)
    keyed = KeyedJaggedTensor(["f", "g"], ids, lengths=torch.tensor([5000, 0]))
    collection(keyed)
    rows = collection.embedding_bags["t"].whole.table.read(ids)[0].weights
    assert rows.abs().max() <= 0.05 and rows.abs().max() > 0.0499
    assert abs(float(rows.std()) - 0.05 / 3**0.5) < 2e-4


def test_names_occur_once() -> None:
    with pytest.raises(ValueError, match="Duplicate table name t"):
        HashEmbeddingBagCollection([bag_config(), bag_config()])
    with pytest.raises(ValueError, match="users.of"):
        HashEmbeddingBagCollection([bag_config(name="users.of")])


def test_names_that_a_dict_has() -> None:
    """nn.ModuleDict refuses them, but "items" and "keys" are names of tables."""
    collection = HashEmbeddingBagCollection([bag_config(name="items"), bag_config(name="keys")])
    collection(bags()).values().sum().backward()
    state = collection.state_dict()
    assert "embedding_bags.items.weight" in state and "embedding_bags.keys.ids" in state
    assert [group["name"] for group in collection.fused_optimizer.param_groups] == ["items", "keys"]


def test_meta_device_says_what_to_do() -> None:
    collection = HashEmbeddingBagCollection([bag_config()], device=torch.device("meta"))
    with pytest.raises(RuntimeError, match="get_default_hybrid_sharders"):
        collection(bags())


def test_static_and_hash_tables_in_one_collection_are_refused() -> None:
    static = EmbeddingBagConfig(name="s", embedding_dim=4, num_embeddings=10, feature_names=["f"])
    with pytest.raises(ValueError, match="static ones \\(s\\)"):
        use_hash_tables(EmbeddingBagCollection(tables=[bag_config(), static], device=torch.device("meta")))


def test_frozen_tables_learn_nothing() -> None:
    config = bag_config(initializer=Normal(), optimizer=OptimizerSpec(lr=1.0))
    collection = HashEmbeddingBagCollection([config])
    collection.requires_grad_(False)
    weights = torch.rand(IDS.numel(), requires_grad=True)
    weighted = HashEmbeddingBagCollection([bag_config(name="w")], is_weighted=True)
    (collection(bags()).values().sum() + weighted(bags(weights)).values().sum()).backward()
    rows = collection.embedding_bags["t"].whole.table.read(IDS.unique())[0].weights
    torch.testing.assert_close(rows.double(), rows_of(config, IDS.unique()))


def test_state_dict_goes_on() -> None:
    model, again = (
        hash_model("bags", specs("adam"), torch.device("cpu"), eviction=LRU(), max_rows=30) for _ in range(2)
    )
    for step in range(4):
        model(make_batch(step, 0, 1, 40, every_row=False, static=False))[0].backward()
    again(make_batch(9, 0, 1, 40, every_row=False, static=False))
    again.load_state_dict(model.state_dict())
    for step in range(4, 8):
        batch = make_batch(step, 0, 1, 40, every_row=False, static=False)
        (loss, first), (other_loss, second) = model(batch), again(batch)
        assert torch.equal(first, second)
        loss.backward()
        other_loss.backward()
    for (key, value), other in zip(model.state_dict().items(), again.state_dict().values()):
        assert torch.equal(value, other) or key.endswith("clock"), key


def test_missing_rows_of_a_state_dict_are_reported() -> None:
    model = hash_model("bags", specs("adam"), torch.device("cpu"))
    state = model.state_dict()
    del state["sparse.embedding_bags.t1.state.momentum2"]
    with pytest.raises(RuntimeError, match="t1.state.momentum2"):
        model.load_state_dict(state)


def test_dlrm_changes_only_its_tables() -> None:
    """torchrec's DLRM with static and with hash tables: the same predictions while it trains."""
    ids = torch.arange(30)
    models = []
    for is_hash in (False, True):
        fields = {"name": "t", "embedding_dim": 8, "num_embeddings": 30, "feature_names": ["f", "g"]}
        config = HashEmbeddingBagConfig(initializer=Uniform(low=-0.5, high=0.5), **fields)
        collection: nn.Module
        if is_hash:
            collection = HashEmbeddingBagCollection([config])
            apply_optimizer_in_backward(torch.optim.Adagrad, collection.parameters(), {"lr": 0.1})
        else:
            collection = EmbeddingBagCollection([EmbeddingBagConfig(**fields)])
            with torch.no_grad():
                collection.embedding_bags["t"].weight.copy_(rows_of(config, ids).mul(1))
            apply_optimizer_in_backward(torch.optim.Adagrad, collection.parameters(), {"lr": 0.1})
        torch.manual_seed(3)
        models.append(
            DLRM(collection, dense_in_features=5, dense_arch_layer_sizes=[6, 8], over_arch_layer_sizes=[5, 1])
        )
    for step in range(10):
        generator = torch.Generator().manual_seed(step)
        dense = torch.rand(4, 5, generator=generator)
        lengths = torch.randint(0, 4, (8,), generator=generator)
        values = torch.randint(0, 30, (int(lengths.sum()),), generator=generator)
        sparse = KeyedJaggedTensor(["f", "g"], values, lengths=lengths)
        outputs = [model(dense, sparse) for model in models]
        torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-6, atol=1e-6)
        for output in outputs:
            output.square().mean().backward()


def test_constant_rows_and_pooling_of_the_test_model() -> None:
    """The model of the equivalence tests pools by SUM and by MEAN."""
    assert {pooling_of("bags", table) for table in ("t0", "t1", "t2")} == {PoolingType.SUM, PoolingType.MEAN}
    collection = HashEmbeddingBagCollection([bag_config(initializer=Constant(value=2.0))])
    assert torch.equal(collection(bags()).values()[:, 0], torch.tensor([4.0, 0.0, 2.0]))
