"""A small model over hash tables, resident or cached, and its batches."""

from __future__ import annotations

from pathlib import Path

import shared  # noqa: F401 (makes helpers of hybrid_torchrec's tests importable)
import torch
from batches import Batch
from hybrid_torchrec import OptimizerSpec
from hybrid_torchrec.modules import (
    HashEmbeddingBagCollection,
    HashEmbeddingBagConfig,
    HashEmbeddingCollection,
    HashEmbeddingConfig,
)
from torch import Tensor, nn
from torchrec import KeyedJaggedTensor
from torchrec.modules.embedding_configs import DataType
from torchrec_embcache.modules import (
    EmbCacheEmbeddingBagCollection,
    EmbCacheEmbeddingBagConfig,
    EmbCacheEmbeddingCollection,
    EmbCacheEmbeddingConfig,
)

FEATURES = ["f0", "f1", "f2", "f3"]
TABLES = {"t0": ["f0", "f1"], "t1": ["f2"], "t2": ["f1", "f3"]}
IDS = 400
SAMPLES = 6  # of a rank


def make_batch(step: int, rank: int, *, weighted: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(1000 * rank + step)
    lengths = torch.randint(0, 6, (len(FEATURES) * SAMPLES,), generator=generator)
    ranks = (torch.rand(int(lengths.sum()), generator=generator) ** 2 * IDS).long()
    ids = torch.randint(-(2**63), 2**63 - 1, (IDS,), generator=torch.Generator().manual_seed(1))[ranks]
    target = torch.randn(SAMPLES, generator=generator)
    weights = torch.rand(len(ids), generator=generator) if weighted else None
    return Batch(KeyedJaggedTensor(FEATURES, ids, weights, lengths=lengths), target)


class Model(nn.Module):
    """Sum of what the collection gives of a sample -> squared error."""

    def __init__(self, kind: str, collection: nn.Module) -> None:
        super().__init__()
        self.kind = kind
        self.sparse = collection

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        prediction = total(self.kind, self.sparse(batch.features), SAMPLES)
        return (prediction - batch.target).square().mean(), prediction


@torch.fx.wrap
def total(kind: str, out: object, samples: int) -> Tensor:
    if kind != "sequences":
        return out.values().sum(1)  # type: ignore[attr-defined]
    parts = []
    for jagged in out.values():  # type: ignore[attr-defined]
        device = jagged.values().device
        bag = torch.repeat_interleave(torch.arange(samples), jagged.lengths().long().cpu()).to(device)
        parts.append(torch.zeros(samples, device=device).index_add(0, bag, jagged.values().sum(1)))
    return torch.stack(parts).sum(0)


def make_model(
    kind: str, device: torch.device, folder: Path | None, cache_rows: int, data_type: DataType = DataType.FP32
) -> Model:
    """kind: bags, weighted (bags with weights) or sequences. Cached, if there is a folder. A rate for each table."""
    fields = {"num_embeddings": 100, "data_type": data_type}
    tables = [
        {
            "name": name,
            "embedding_dim": 8 if kind == "sequences" or name != "t0" else 4,
            "feature_names": features,
            "optimizer": OptimizerSpec(kind="adam", lr=0.05 / (1 + number)),
        }
        for number, (name, features) in enumerate(TABLES.items())
    ]
    bags = kind != "sequences"
    if folder is None:
        config = HashEmbeddingBagConfig if bags else HashEmbeddingConfig
        collection = HashEmbeddingBagCollection if bags else HashEmbeddingCollection
    else:
        config = EmbCacheEmbeddingBagConfig if bags else EmbCacheEmbeddingConfig
        collection = EmbCacheEmbeddingBagCollection if bags else EmbCacheEmbeddingCollection
        fields |= {"cache_rows": cache_rows, "host_rows": 20, "folder": folder, "slab_bytes": 1 << 14, "io_threads": 2}
    weights = {"is_weighted": kind == "weighted"} if bags else {}
    return Model(kind, collection([config(**table, **fields) for table in tables], device=device, **weights))
