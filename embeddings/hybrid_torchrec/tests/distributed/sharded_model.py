"""A model as torchrec has them, a layer over a collection; static and hash tables differ in their configs alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hybrid_torchrec import OptimizerSpec, Uniform
from hybrid_torchrec.modules import (
    HashEmbeddingBagCollection,
    HashEmbeddingBagConfig,
    HashEmbeddingCollection,
    HashEmbeddingConfig,
)
from sharded_data import FEATURES, TABLES, Batch
from torch import Tensor, nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, EmbeddingCollection, EmbeddingConfig, PoolingType

INITIAL = Uniform(low=-0.5, high=0.5)
OVER_RATE = 0.1


def dims(module: str) -> dict[str, int]:
    """torchrec's EmbeddingCollection knows one width only."""
    return {"t0": 8, "t1": 8 if module == "sequences" else 4, "t2": 8}


class Model(nn.Module):
    """Collection -> one number a sample -> (loss, predictions). `sequences`: rows of a sample are added up."""

    def __init__(self, module: str, collection: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.sparse = collection
        self.width = sum(dims(module)[table] for table, features in TABLES.items() for _ in features)
        self.over = nn.Linear(self.width, 1)
        with torch.no_grad():
            self.over.weight.copy_(torch.randn(self.over.weight.shape, generator=torch.Generator().manual_seed(3)))
            self.over.bias.zero_()

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        out = self.sparse(batch.features)
        predictions = self.over(joined(self.module, out)).squeeze(1)
        return (predictions - batch.target).square().mean(), predictions


@torch.fx.wrap
def joined(module: str, out: object) -> Tensor:
    if module != "sequences":
        return out.values()  # type: ignore[attr-defined]
    return torch.cat([_sum(out[name]) for name in ("f0", "f1@t0", "f2", "f1@t2", "f3")], dim=1)  # type: ignore[index]


def _sum(jagged: object) -> Tensor:
    lengths: Tensor = jagged.lengths()  # type: ignore[attr-defined]
    values: Tensor = jagged.values()  # type: ignore[attr-defined]
    bag = torch.repeat_interleave(torch.arange(lengths.numel(), device=values.device), lengths.long())
    return values.new_zeros(lengths.numel(), values.size(1)).index_add(0, bag, values)


def pooling_of(module: str, table: str) -> PoolingType:
    """nn.EmbeddingBag has no weighted mean."""
    return PoolingType.MEAN if table == "t1" and module == "bags" else PoolingType.SUM


def static_model(module: str, rows: int) -> Model:
    if module == "sequences":
        configs = [
            EmbeddingConfig(name=name, num_embeddings=rows, embedding_dim=dim, feature_names=TABLES[name])
            for name, dim in dims(module).items()
        ]
        return Model(module, EmbeddingCollection(tables=configs))
    bag_configs = [
        EmbeddingBagConfig(
            name=name,
            num_embeddings=rows,
            embedding_dim=dim,
            feature_names=TABLES[name],
            pooling=pooling_of(module, name),
        )
        for name, dim in dims(module).items()
    ]
    return Model(module, EmbeddingBagCollection(tables=bag_configs, is_weighted=module == "weighted"))


def hash_model(module: str, optimizers: Sequence[OptimizerSpec], device: torch.device, **fields: object) -> Model:
    """optimizers: of t0, t1, t2."""
    shared = {"num_embeddings": 100, "initializer": INITIAL, **fields}
    named = list(zip(dims(module).items(), optimizers))
    if module == "sequences":
        configs = [
            HashEmbeddingConfig(name=name, embedding_dim=dim, feature_names=TABLES[name], optimizer=spec, **shared)
            for (name, dim), spec in named
        ]
        return Model(module, HashEmbeddingCollection(tables=configs, device=device))
    bag_configs = [
        HashEmbeddingBagConfig(
            name=name,
            embedding_dim=dim,
            feature_names=TABLES[name],
            optimizer=spec,
            pooling=pooling_of(module, name),
            **shared,
        )
        for (name, dim), spec in named
    ]
    collection = HashEmbeddingBagCollection(tables=bag_configs, is_weighted=module == "weighted", device=device)
    return Model(module, collection)


def feature_count() -> int:
    return len(FEATURES)
