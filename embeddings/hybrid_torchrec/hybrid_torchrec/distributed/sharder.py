"""HashSharder: gives collections of hash tables to torchrec's planner and DistributedModelParallel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import nn
from torchrec.distributed.embedding_types import BaseEmbeddingSharder, EmbeddingComputeKernel
from torchrec.distributed.types import ParameterSharding, ParameterStorage, ShardingEnv

from hybrid_torchrec.distributed.placement import SHARDING_TYPES
from hybrid_torchrec.distributed.sharded import ShardedHashModule
from hybrid_torchrec.modules.collection import FusedCollection
from hybrid_torchrec.modules.config import dtype_of

M = TypeVar("M", bound=FusedCollection)

_STORAGE = {"cpu": ParameterStorage.DDR, "mtia": ParameterStorage.DDR}  # others have memory of their own


class HashSharder(BaseEmbeddingSharder[M], Generic[M]):
    """Args: fused_params: fbgemm's names ("optimizer", "learning_rate", "eps", "beta1", "beta2", "weight_decay"), for
    tables that have no optimizer of their own."""

    collection: type[M]
    sharded: type[ShardedHashModule[Any]]

    def __init__(self, fused_params: Mapping[str, Any] | None = None) -> None:
        super().__init__(fused_params=dict(fused_params) if fused_params is not None else None)

    def shardable_parameters(self, module: M) -> dict[str, nn.Parameter]:
        """What the planner reckons with: num_embeddings rows, on the meta device."""
        planned = {}
        for name, table in module.tables().items():
            rows = table.config.num_embeddings if table.config.max_rows is None else table.config.max_rows
            shape = (rows, table.config.embedding_dim)
            weight = nn.Parameter(torch.empty(shape, dtype=dtype_of(table.config), device="meta"))
            for attribute in ("_optimizer_classes", "_optimizer_kwargs"):
                if hasattr(table.weight, attribute):
                    setattr(weight, attribute, getattr(table.weight, attribute))
            planned[name] = weight
        return planned

    def sharding_types(self, compute_device_type: str) -> list[str]:
        return list(SHARDING_TYPES)

    def compute_kernels(self, sharding_type: str, compute_device_type: str) -> list[str]:
        return [EmbeddingComputeKernel.FUSED.value]

    def storage_usage(self, tensor: torch.Tensor, compute_device_type: str, compute_kernel: str) -> dict[str, int]:
        storage = _STORAGE.get(compute_device_type, ParameterStorage.HBM)
        return {storage.value: tensor.numel() * tensor.element_size()}

    def shard(
        self,
        module: M,
        params: Mapping[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedHashModule[Any]:
        return self.sharded(module, params, env, self.fused_params, device or torch.device("cpu"))

    @property
    def module_type(self) -> type[M]:
        return self.collection
