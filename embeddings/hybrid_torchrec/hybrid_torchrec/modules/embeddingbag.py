"""EmbeddingBagCollection of hash tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from torchrec.modules.embedding_modules import (
    EmbeddingBagCollectionInterface,
    get_embedding_names_by_table,
    process_pooled_embeddings,
    reorder_inverse_indices,
)
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

from hybrid_torchrec.host_copies import known_on_host, to_device
from hybrid_torchrec.modules.collection import FusedCollection, TableDict, check_names
from hybrid_torchrec.modules.config import HashEmbeddingBagConfig, hash_config
from hybrid_torchrec.modules.grouping import Bags, TableGroups
from hybrid_torchrec.modules.ids import joined_ids
from hybrid_torchrec.modules.pooling import join_offsets
from hybrid_torchrec.modules.rows import pooled_rows
from hybrid_torchrec.modules.table import TableModule

POOLINGS = {PoolingType.SUM: "sum", PoolingType.MEAN: "mean"}


class HashEmbeddingBagCollection(FusedCollection, EmbeddingBagCollectionInterface):
    """EmbeddingBagCollection whose tables take any int64 id.

    Backward is the optimizer's step (see HashEmbeddingBagConfig.optimizer), so there are no gradients of tables.
    In training mode ids are inserted, counted and evicted; in eval mode absent ids read the table's default row.

    Args:
        tables: configs, also torchrec's EmbeddingBagConfig; several features may share a table, and several tables a
            feature.
        is_weighted: whether the input's weights are factors of the rows.
        device: of the rows; "meta" for a model that is to be sharded.
    """

    def __init__(
        self,
        tables: Sequence[HashEmbeddingBagConfig | EmbeddingBagConfig],
        is_weighted: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        configs = [hash_config(config, HashEmbeddingBagConfig) for config in tables]
        check_names(configs)
        for config in configs:
            if config.pooling not in POOLINGS:
                raise ValueError(f"table {config.name}: pooling {config.pooling}, not one of {list(POOLINGS)}")
        self._configs = configs
        self._is_weighted = is_weighted
        self._device = torch.device(device) if device is not None else torch.device("cpu")
        self.embedding_bags = TableDict({config.name: self.table_type(config, device) for config in configs})
        self.output = BagOutput(self._configs)
        self._table_groups = TableGroups()

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Features of the tables, (T, B, any length) -> KeyedTensor (B, sum of D) float32."""
        self._warn_if_alone()
        return local_bags(
            features,
            self._configs,
            self.embedding_bags,
            self._is_weighted,
            self.training,
            self.output,
            self._table_groups,
        )

    def embedding_bag_configs(self) -> list[HashEmbeddingBagConfig]:
        return self._configs

    def is_weighted(self) -> bool:
        return self._is_weighted

    @property
    def device(self) -> torch.device:
        return self._device

    def tables(self) -> Mapping[str, TableModule]:
        return dict(self.embedding_bags.items())


class BagOutput:
    """Joins pooled rows of the features, in the order of the tables, to torchrec's KeyedTensor."""

    def __init__(self, configs: Sequence[HashEmbeddingBagConfig]) -> None:
        self._names = [name for names in get_embedding_names_by_table(list(configs)) for name in names]
        self._dims = [config.embedding_dim for config in configs for _ in config.feature_names]
        self._features = [feature for config in configs for feature in config.feature_names]

    def join(self, pooled: list[Tensor], features: KeyedJaggedTensor) -> KeyedTensor:
        inverse = reorder_inverse_indices(features.inverse_indices_or_none(), self._features)
        return KeyedTensor(
            keys=self._names,
            length_per_key=self._dims,
            values=process_pooled_embeddings(pooled_embeddings=pooled, inverse_indices=inverse),
        )


def local_bags(
    features: KeyedJaggedTensor,
    configs: Sequence[HashEmbeddingBagConfig],
    tables: nn.ModuleDict,
    is_weighted: bool,
    train: bool,
    output: BagOutput,
    table_groups: TableGroups,
) -> KeyedTensor:
    """All rows are in this process: one lookup and one step for each table, or each group of tables."""
    per_feature: dict[str, JaggedTensor] = features.to_dict()
    poolings = [POOLINGS[config.pooling] for config in configs]
    pooled: list[Tensor] = [torch.empty(0)] * len(configs)
    for group, numbers in table_groups.groups([tables[config.name].whole for config in configs], poolings):
        parts = [[per_feature[feature] for feature in configs[number].feature_names] for number in numbers]
        offsets = [[part.offsets() for part in own] for own in parts]
        device = group.parts[0].table.device
        bags = Bags(
            offsets=known_on_host(join_offsets([part for own in offsets for part in own]), device),
            counts=tuple(sum(part.numel() - 1 for part in own) for own in offsets),
            pooling=poolings[numbers[0]],
        )
        weights = torch.cat([part.weights() for own in parts for part in own]).float() if is_weighted else None
        weights = None if weights is None else to_device(weights, device)
        ids = [joined_ids([part.values() for part in own], configs[number].name) for number, own in zip(numbers, parts)]
        modules = [tables[configs[number].name] for number in numbers]
        for number, rows in zip(numbers, pooled_rows(group, modules, ids, bags, weights, train)):
            pooled[number] = rows
    samples = [[per_feature[feature].offsets().numel() - 1 for feature in config.feature_names] for config in configs]
    return output.join([bag for rows, sizes in zip(pooled, samples) for bag in rows.split(sizes)], features)
