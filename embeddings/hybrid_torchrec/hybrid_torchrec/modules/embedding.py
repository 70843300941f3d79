"""EmbeddingCollection of hash tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torchrec.modules.embedding_configs import EmbeddingConfig
from torchrec.modules.embedding_modules import EmbeddingCollectionInterface, get_embedding_names_by_table
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

from hybrid_torchrec.host_copies import to_device
from hybrid_torchrec.modules.collection import FusedCollection, TableDict, check_names
from hybrid_torchrec.modules.config import HashEmbeddingConfig, hash_config
from hybrid_torchrec.modules.grouping import TableGroups
from hybrid_torchrec.modules.ids import joined_ids
from hybrid_torchrec.modules.rows import single_rows
from hybrid_torchrec.modules.table import TableModule


class HashEmbeddingCollection(FusedCollection, EmbeddingCollectionInterface):
    """EmbeddingCollection whose tables take any int64 id; see HashEmbeddingBagCollection.

    Tables may have different embedding_dim.

    Args:
        tables: configs, also torchrec's EmbeddingConfig; several features may share a table, and several tables a
            feature.
        device: of the rows; "meta" for a model that is to be sharded.
        need_indices: whether the output's weights are the ids.
    """

    def __init__(
        self,
        tables: Sequence[HashEmbeddingConfig | EmbeddingConfig],
        device: torch.device | str | None = None,
        need_indices: bool = False,
    ) -> None:
        super().__init__()
        configs = [hash_config(config, HashEmbeddingConfig) for config in tables]
        check_names(configs)
        self._configs = configs
        self._need_indices = need_indices
        self._device = torch.device(device) if device is not None else torch.device("cpu")
        self.embeddings = TableDict({config.name: self.table_type(config, device) for config in configs})
        self.output = SequenceOutput(self._configs, need_indices)
        self._table_groups = TableGroups()

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Features of the tables -> by embedding name, rows (L, D) float32 of its L ids."""
        self._warn_if_alone()
        return local_sequences(features, self._configs, self.embeddings, self.training, self.output, self._table_groups)

    def embedding_configs(self) -> list[HashEmbeddingConfig]:
        return self._configs

    def need_indices(self) -> bool:
        return self._need_indices

    def embedding_dim(self) -> int:
        """Raises ValueError where tables differ."""
        dims = {config.embedding_dim for config in self._configs}
        if len(dims) != 1:
            raise ValueError(f"the tables have embedding dimensions {sorted(dims)}; ask embedding_configs()")
        return dims.pop()

    def embedding_names_by_table(self) -> list[list[str]]:
        names: list[list[str]] = get_embedding_names_by_table(self._configs)
        return names

    @property
    def device(self) -> torch.device:
        return self._device

    def tables(self) -> Mapping[str, TableModule]:
        return dict(self.embeddings.items())


class SequenceOutput:
    """Gives the rows of each feature, in the order of the tables, torchrec's names and lengths."""

    def __init__(self, configs: Sequence[HashEmbeddingConfig], need_indices: bool) -> None:
        self._names = [name for names in get_embedding_names_by_table(list(configs)) for name in names]
        self._features = [feature for config in configs for feature in config.feature_names]
        self._need_indices = need_indices

    def join(self, rows: Sequence[Tensor], features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        per_feature: dict[str, JaggedTensor] = features.to_dict()
        result = {}
        for name, feature, values in zip(self._names, self._features, rows):
            source, device = per_feature[feature], values.device
            result[name] = JaggedTensor(
                values=values,
                lengths=to_device(source.lengths(), device),
                offsets=to_device(source.offsets(), device),
                weights=to_device(source.values(), device) if self._need_indices else None,
            )
        return result


def local_sequences(
    features: KeyedJaggedTensor,
    configs: Sequence[HashEmbeddingConfig],
    tables: nn.ModuleDict,
    train: bool,
    output: SequenceOutput,
    table_groups: TableGroups,
) -> dict[str, JaggedTensor]:
    """All rows are in this process: one lookup and one step for each table, or each group of tables."""
    per_feature: dict[str, JaggedTensor] = features.to_dict()
    values = [[per_feature[feature].values() for feature in config.feature_names] for config in configs]
    rows: list[Tensor] = [torch.empty(0)] * len(configs)
    for group, numbers in table_groups.groups([tables[config.name].whole for config in configs]):
        ids = [joined_ids(values[number], configs[number].name) for number in numbers]
        modules = [tables[configs[number].name] for number in numbers]
        for number, found in zip(numbers, single_rows(group, modules, ids, train)):
            rows[number] = found
    split = [part for found, own in zip(rows, values) for part in found.split([one.numel() for one in own])]
    return output.join(split, features)
