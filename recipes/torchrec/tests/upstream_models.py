"""Batches and models of the programs of upstream_programs.py: those of upstream's examples and unit tests, with small
tables. No model names a device where upstream's does not: `at()` is what scripts find at their start.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torchrec import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    KeyedJaggedTensor,
    PoolingType,
)
from torchrec.datasets.utils import Batch
from torchrec.models.dlrm import DLRM, DLRMTrain

META = torch.device("meta")
FEATURES = ["f0", "f1", "f2"]
ROWS = 20
MANY_ROWS = 3000  # a planner left to itself replicates smaller tables
DIM = 8
DENSE = 4
BATCH = 5
STEPS = 4
RATE = 0.1
_device = torch.device("cpu")


def at() -> torch.device:
    return _device


def use(device: torch.device) -> None:
    """From here on scripts find this device."""
    global _device
    _device = device


def kjt(step: int, keys: list[str], limit: int = ROWS, longest: int = 3) -> KeyedJaggedTensor:
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    lengths = torch.randint(0, longest + 1, (len(keys) * BATCH,), generator=generator)
    values = torch.randint(0, limit, (int(lengths.sum()),), generator=generator)
    return KeyedJaggedTensor(keys=keys, values=values, lengths=lengths).to(at())


def batches(steps: int = STEPS) -> Iterator[Batch]:
    for step in range(steps):
        generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
        dense = torch.rand(BATCH, DENSE, generator=generator)
        labels = torch.randint(0, 2, (BATCH,), generator=generator)
        yield Batch(dense_features=dense, sparse_features=kjt(step, FEATURES), labels=labels)


def bag_configs(rows: int = ROWS, dim: int = DIM, pooling: PoolingType = PoolingType.SUM) -> list[EmbeddingBagConfig]:
    return [
        EmbeddingBagConfig(
            name=f"t_{f}", num_embeddings=rows + n, embedding_dim=dim, feature_names=[f], pooling=pooling
        )
        for n, f in enumerate(FEATURES)
    ]


def bags(
    device: torch.device = META, rows: int = ROWS, dim: int = DIM, pooling: PoolingType = PoolingType.SUM
) -> EmbeddingBagCollection:
    return EmbeddingBagCollection(tables=bag_configs(rows, dim, pooling), device=device)


def sequences(device: torch.device = META) -> EmbeddingCollection:
    return EmbeddingCollection(
        tables=[
            EmbeddingConfig(name=f"t_{f}", num_embeddings=ROWS + n, embedding_dim=DIM, feature_names=[f])
            for n, f in enumerate(FEATURES)
        ],
        device=device,
    )


def dlrm(collection: nn.Module | None = None) -> DLRMTrain:
    return DLRMTrain(
        DLRM(
            embedding_bag_collection=collection or bags(),
            dense_in_features=DENSE,
            dense_arch_layer_sizes=[8, DIM],
            over_arch_layer_sizes=[8, 1],
            dense_device=at(),
        )
    )
