"""Models of TorchRec: the dense part and the tables in one checkpoint, on other numbers of ranks too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
from children import without_devices
from hybrid_torchrec.checkpoint import Checkpointer
from hybrid_torchrec.checkpoint.models import DenseState, table_shards
from hybrid_torchrec.modules import HashEmbeddingBagCollection, HashEmbeddingBagConfig
from small_tables import all_rows, assert_same_rows
from torchrec import KeyedJaggedTensor


def make_model() -> torch.nn.Module:
    configs = [
        HashEmbeddingBagConfig(name=name, embedding_dim=4, num_embeddings=100, feature_names=[f"f_{name}"])
        for name in ("user", "item")
    ]
    return torch.nn.ModuleDict({"sparse": HashEmbeddingBagCollection(tables=configs), "dense": torch.nn.Linear(8, 1)})


def step(model: torch.nn.Module, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(-50, 50, (24,), generator=random)
    features = KeyedJaggedTensor.from_lengths_sync(["f_user", "f_item"], ids, torch.full((8,), 3))
    model["dense"](model["sparse"](features).values()).sum().backward()


def test_a_model_that_is_not_sharded(tmp_path: Path):
    model, other = make_model(), make_model()
    for seed in range(3):
        step(model, seed)
    state = DenseState(model).state_dict()
    assert state.keys() == {"dense.weight", "dense.bias"}
    shards = table_shards(model)
    assert shards.keys() == {"sparse.embedding_bags.user", "sparse.embedding_bags.item"}
    Checkpointer(tmp_path, shards).save(3, {"model": DenseState(model)})
    Checkpointer(tmp_path, table_shards(other)).load({"model": DenseState(other)})
    assert torch.equal(other["dense"].weight, model["dense"].weight)
    for name, shard in table_shards(other).items():
        assert len(shard.table)
        assert_same_rows(all_rows(shard.table), all_rows(shards[name].table))
    # The model's own state_dict is as it was.
    assert "sparse.embedding_bags.user.ids" in model.state_dict()


def test_sharded_models(tmp_path: Path):
    script = Path(__file__).with_name("model_ranks.py")
    run = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, env=without_devices(), timeout=1800
    )
    assert run.returncode == 0, run.stdout + run.stderr[-6000:]
    assert run.stdout.count(": ok") == 2
