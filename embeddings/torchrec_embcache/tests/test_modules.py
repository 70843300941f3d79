"""Collections of cached tables, not sharded, give the bits of resident ones."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from hybrid_torchrec import LRU, OptimizerSpec
from hybrid_torchrec.modules import accumulate_gradients, use_hash_tables
from models import make_batch, make_model
from torchrec import EmbeddingBagCollection, KeyedJaggedTensor
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig, data_type_to_dtype
from torchrec_embcache.config import CacheConfig
from torchrec_embcache.modules import EmbCacheEmbeddingBagCollection, EmbCacheEmbeddingBagConfig


def test_defaults_are_those_of_a_table() -> None:
    of_a_table = {field.name: field.default for field in fields(CacheConfig)}
    ours = {field.name: field.default for field in fields(EmbCacheEmbeddingBagConfig) if field.name in of_a_table}
    assert ours.pop("cache_rows") == 0  # which check() refuses
    assert ours == {name: of_a_table[name] for name in ours} and {"evict_share", "slab_bytes"} <= {*ours}


@pytest.mark.parametrize("kind", ["bags", "sequences"])
@pytest.mark.parametrize("ahead", [0, 3])
def test_collection(kind: str, ahead: int, folder: Path) -> None:
    cpu = torch.device("cpu")
    resident, cached = make_model(kind, cpu, None, 0), make_model(kind, cpu, folder, 170)
    assert cached.sparse.fused_optimizer.param_groups[0]["lr"] == 0.05
    sent = 0
    for step in range(25):
        while ahead and sent <= min(step + ahead, 24):
            cached.sparse.prefetch(make_batch(sent, 0).features)
            sent += 1
        losses = [model(make_batch(step, 0)) for model in (resident, cached)]
        assert torch.equal(losses[0][1], losses[1][1]), step
        for loss, _ in losses:
            loss.backward()
    cached.eval()
    resident.eval()
    assert torch.equal(resident(make_batch(3, 7))[1], cached(make_batch(3, 7))[1])
    tables = cached.sparse.cached_tables()
    assert all(len(table) > table.device_rows for (table,) in tables.values())
    left, right = cached.state_dict(), resident.state_dict()
    assert left.keys() == right.keys()
    for key, value in right.items():
        if not key.endswith("clock"):  # evictions of a cache forget nothing
            assert torch.equal(left[key], value), key
    cached.sparse.close()


def test_loaded_rows_are_trained_on(folder: Path) -> None:
    """A state_dict of resident tables goes into cached ones, most of it to the tiers below, and back."""
    cpu = torch.device("cpu")
    resident, cached = make_model("bags", cpu, None, 0), make_model("bags", cpu, folder, 170)
    for step in range(10):
        resident(make_batch(step, 0))[0].backward()
        cached(make_batch(step + 50, 0))[0].backward()  # rows that must not stay
    cached.load_state_dict(resident.state_dict())
    for step in range(10, 20):
        outputs = [model(make_batch(step, 0)) for model in (resident, cached)]
        assert torch.equal(outputs[0][1], outputs[1][1])
        for loss, _ in outputs:
            loss.backward()
    again = make_model("bags", cpu, None, 0)
    again.load_state_dict(cached.state_dict())
    for key, value in resident.state_dict().items():
        if not key.endswith("clock"):
            assert torch.equal(again.state_dict()[key], value), key
    cached.sparse.close()


CASES = [("weighted", DataType.FP32), ("bags", DataType.FP16), ("sequences", DataType.BF16)]


@pytest.mark.parametrize("kind, data_type", CASES)
def test_weights_rates_accumulation_and_small_types(kind: str, data_type: DataType, folder: Path) -> None:
    """Three batches a step, rates by table that change, rows of 16 bits: as in memory, while rows come and go."""
    cpu = torch.device("cpu")
    models = [make_model(kind, cpu, *tiers, data_type) for tiers in ((None, 0), (folder, 190))]
    cached = models[1].sparse
    batches = [make_batch(step, 0, weighted=kind == "weighted") for step in range(24)]
    cached.prefetch(batches[0].features)
    for step, batch in enumerate(batches):
        if step + 1 < len(batches):
            cached.prefetch(batches[step + 1].features)
        outputs = []
        for model in models:
            groups = model.sparse.fused_optimizer.param_groups
            if step == 0:
                assert [group["lr"] for group in groups] == [0.05, 0.05 / 2, 0.05 / 3]
            if step == 9:
                groups[0]["lr"], groups[2]["lr"] = 0.3, 0.0
            loss, output = model(batch)
            outputs.append(output)
            with accumulate_gradients(model) if step % 3 < 2 else nullcontext():
                loss.backward()
        assert torch.equal(*outputs), step
    assert all(table.metrics.counters().evicted_rows > 20 for (table,) in cached.cached_tables().values())
    left, right = cached.state_dict(), models[0].sparse.state_dict()
    rows = {key: value for key, value in right.items() if not key.endswith("clock")}
    assert {value.dtype for key, value in rows.items() if key.endswith("weight")} == {data_type_to_dtype(data_type)}
    for key, value in rows.items():
        assert torch.equal(left[key], value), key
    cached.close()


def bags(**fields: object) -> EmbCacheEmbeddingBagCollection:
    config = EmbCacheEmbeddingBagConfig(
        name="items",
        embedding_dim=4,
        num_embeddings=100,
        feature_names=["f"],
        optimizer=OptimizerSpec(kind="sgd", lr=0.1),
        **{"cache_rows": 20, **fields},
    )
    return EmbCacheEmbeddingBagCollection([config])


def features(step: int) -> KeyedJaggedTensor:
    return KeyedJaggedTensor(["f"], torch.arange(10) + 10 * step, lengths=torch.full((2,), 5))


def test_a_frozen_table_keeps_no_rows_for_updates() -> None:
    """A table that does not train gets no update after which its batches could be released."""
    collection = bags()
    for step in range(4):
        collection(features(step)).values().sum().backward()
    (table,) = collection.cached_tables()["items"]
    before = table.read(table.ids().sort().values)[0]
    collection.embedding_bags["items"].weight.requires_grad_(False)
    for step in range(12):
        collection(features(step % 4))
    assert torch.equal(table.read(before.ids)[0].weights, before.weights)
    collection.close()


def test_models_with_torchrecs_collections_are_not_uncached_silently(folder: Path) -> None:
    config = replace(bags(folder=folder).embedding_bag_configs()[0], name="item")
    model = torch.nn.ModuleDict({"sparse": EmbeddingBagCollection([config], device=torch.device("meta"))})
    with pytest.raises(ValueError, match="item.*EmbCacheEmbeddingBagCollection"):
        use_hash_tables(model)


WRONG = [
    ({"cache_rows": None}, "cache_rows must be an integer of at least 1, got None"),
    ({"cache_rows": 0}, "cache_rows must be an integer of at least 1, got 0"),
    ({"cache_rows": 1e4}, "cache_rows must be an integer"),
    ({"host_rows": 10}, "host_rows=10 needs a folder"),
    ({"host_rows": -1}, "host_rows must be None or an integer that is not negative"),
    ({"folder": 7}, "folder must be a path or None, got 7"),
    ({"evict_share": 2.0}, "evict_share must be in"),
    ({"io_threads": 0}, "io_threads must be an integer of at least 1"),
    ({"slab_bytes": 0}, "slab_bytes must be an integer of at least 1"),
    ({"max_rows": 50}, "max_rows and eviction forget rows"),
    ({"eviction": LRU(), "max_rows": 50}, "max_rows and eviction forget rows"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG, ids=[repr(fields) for fields, _ in WRONG])
def test_settings_that_cannot_work_are_reported_at_once(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"table 'items': {message}"):
        bags(**{"cache_rows": 20, **fields})
    config = bags().embedding_bag_configs()[0]
    for name, value in fields.items():  # torchrec's configs can be changed after they were made
        setattr(config, name, value)
    with pytest.raises(ValueError, match=f"table 'items': {message}"):
        EmbCacheEmbeddingBagCollection([config])


def test_a_folder_that_cannot_be_is_reported_when_the_collection_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, file / "below", str(file)):
        with pytest.raises(ValueError, match=f"table items: folder .*cannot be made: {file} is a file"):
            bags(folder=folder)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(ValueError, match=f"folder {tmp_path}/new cannot be written: no permission in {tmp_path};"):
        bags(folder=tmp_path / "new")
    monkeypatch.undo()
    bags(folder=tmp_path / "new" / "deep")
    assert sorted(tmp_path.iterdir()) == [file]  # nothing is made until there are rows


def test_ids_that_are_no_integers_are_refused_before_they_are_fetched() -> None:
    collection = bags()
    wrong = KeyedJaggedTensor(["f"], torch.tensor([1.5, 2.0]), lengths=torch.ones(2, dtype=torch.int64))
    for call in (collection.prefetch, collection):
        with pytest.raises(TypeError, match="table items: ids must be integers .*torch.float32"):
            call(wrong)
    collection(features(0)).values().sum().backward()
    collection.close()


def test_a_cached_table_says_what_it_is(folder: Path) -> None:
    collection = bags(folder=folder, host_rows=5)
    for step in range(4):
        collection(features(step)).values().sum().backward()
    text = repr(collection.cached_tables()["items"][0])
    collection.close()
    assert text.startswith("CachedTable('items': 40 rows, 20 of at most 20 on cpu, at most 5 in host memory, disk ")
    assert str(folder) in text and "4 x float32, sgd lr=0.1" in text and "0x" not in text


def test_a_config_without_a_cache_is_refused_at_once() -> None:
    config = EmbeddingBagConfig(name="items", embedding_dim=4, num_embeddings=100, feature_names=["f"])
    with pytest.raises(TypeError, match="items.*EmbCacheEmbeddingBagConfig.*cache_rows"):
        EmbCacheEmbeddingBagCollection([config])
