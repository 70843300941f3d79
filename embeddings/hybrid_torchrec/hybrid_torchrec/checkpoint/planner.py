"""Planners that let hash tables sit in one torch.distributed.checkpoint with the dense model.

The default planners need tensors whose size every rank knows before it loads. A hash table has as many rows as it has,
and its rows move between ranks when their number changes, so each rank saves its rows with their ids, and each rank
reads those saved parts that can hold ids of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.default_planner import create_default_local_load_plan
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    ReadItem,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)

from hybrid_torchrec.checkpoint.parts import ERASED, INFO, POLICY, Key, Rows, Shape
from hybrid_torchrec.checkpoint.tables import SavedLeaf, TableLeaf


@dataclass
class _PartSource:
    """Makes one part of a table when the first of its tensors is written, and drops it after the last."""

    rows: Rows
    first: int
    last: int
    waiting: dict[str, Tensor] = field(default_factory=dict)

    def take(self, name: str) -> Tensor:
        if not self.waiting:
            self.waiting = self.rows.read(self.first, self.last).named_tensors()
        return self.waiting.pop(name).contiguous()


@dataclass(frozen=True)
class _LazyTensor:
    source: _PartSource
    name: str
    shape: Shape

    def __create_write_items__(self, fqn: str, _: Any) -> list[WriteItem]:
        zero = torch.Size([0] * len(self.shape.size))
        data = TensorWriteData(
            chunk=ChunkStorageMetadata(offsets=zero, sizes=self.shape.size),
            properties=TensorProperties(dtype=self.shape.dtype),
            size=self.shape.size,
        )
        return [WriteItem(index=MetadataIndex(fqn, zero), type=WriteItemType.TENSOR, tensor_data=data)]


class HashSavePlanner(DefaultSavePlanner):
    """The default planner for everything but hash tables; their rows are copied part by part while they are written."""

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        super().set_up_planner(state_dict, storage_meta, is_coordinator)
        for fqn, leaf in [(fqn, value) for fqn, value in self.state_dict.items() if isinstance(value, SavedLeaf)]:
            path = self.mappings.pop(fqn)
            del self.state_dict[fqn]
            for key, value in (pair for source in leaf.sources() for pair in _saved(*source)):
                self.state_dict[key.under(fqn)] = value
                self.mappings[key.under(fqn)] = (*path, *key.path)

    def lookup_object(self, index: MetadataIndex) -> Any:
        value = self.state_dict[index.fqn]
        return value.source.take(value.name) if isinstance(value, _LazyTensor) else super().lookup_object(index)


def _saved(rows: Rows, shard: int, shards: int) -> Iterator[tuple[Key, Any]]:
    yield Key(shard, shards, None, INFO), {**rows.info, "rows": rows.count}
    if rows.erased is not None:
        yield Key(shard, shards, None, ERASED), rows.erased
    for name, value in rows.policy.items():
        yield Key(shard, shards, None, f"{POLICY}{name}"), value
    for part, (first, last) in enumerate(rows.parts()):
        source = _PartSource(rows, first, last)
        for name, shape in rows.shapes(last - first).items():
            yield Key(shard, shards, part, name), _LazyTensor(source, name, shape)


class HashLoadPlanner(DefaultLoadPlanner):
    """The default planner for everything but hash tables, which read what can hold ids of theirs on any world size."""

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        assert metadata is not None
        self._leaves: dict[str, TableLeaf] = {}
        places = list(_take_leaves(state_dict, ()))
        super().set_up_planner(state_dict, metadata, is_coordinator)
        for container, name, path, leaf in places:
            container[name] = leaf
            self._leaves[".".join(path)] = leaf
        keys = {fqn: {key: Key.parse(fqn, key) for key in metadata.state_dict_metadata} for fqn in self._leaves}
        self._keys = {
            fqn: {key: place for key, place in places.items() if place is not None} for fqn, places in keys.items()
        }
        self._tables = {key: fqn for fqn, places in self._keys.items() for key in places}
        self._buffers: dict[str, Tensor] = {}
        rest = {key: value for key, value in metadata.state_dict_metadata.items() if key not in self._tables}
        self._saved, self.metadata = metadata, replace(metadata, state_dict_metadata=rest)

    def create_local_plan(self) -> LoadPlan:
        items = list(create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load).items)
        for fqn, leaf in self._leaves.items():
            wanted = leaf.wanted(fqn, self._keys[fqn].values(), missing_is_fine=self.allow_partial_load)
            for key, place in self._keys[fqn].items():
                if place in wanted:
                    items.append(_read_item(key, self._saved.state_dict_metadata[key]))
                    leaf.expect(place)
        return LoadPlan(items)

    def is_of_table(self, read_item: ReadItem) -> bool:
        return read_item.dest_index.fqn in self._tables

    def load_bytes(self, read_item: ReadItem, value: Any) -> None:
        key = read_item.dest_index.fqn
        if key not in self._tables:
            super().load_bytes(read_item, value)
            return
        fqn = self._tables[key]
        self._leaves[fqn].accept(self._keys[fqn][key], torch.load(value, weights_only=True))

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        key = read_item.dest_index.fqn
        if key not in self._tables:
            return super().resolve_tensor(read_item)
        saved = self._saved.state_dict_metadata[key]
        fqn = self._tables[key]
        shape = Shape(saved.properties.dtype, saved.size)
        self._buffers[key] = self._leaves[fqn].buffer(self._keys[fqn][key], shape)
        return self._buffers[key]

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        key = read_item.dest_index.fqn
        if key not in self._tables:
            super().commit_tensor(read_item, tensor)
            return
        fqn = self._tables[key]
        self._leaves[fqn].accept(self._keys[fqn][key], self._buffers.pop(key))


def _take_leaves(
    container: dict[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[dict[str, Any], str, tuple[str, ...], TableLeaf]]:
    """Takes the tables out of nested dicts: the default planner would replace what it does not know by None."""
    for name, value in list(container.items()):
        path = (*above, str(name))
        if isinstance(value, TableLeaf):
            del container[name]
            yield container, name, path, value
        elif isinstance(value, dict):
            yield from _take_leaves(value, path)


def _read_item(key: str, saved: TensorStorageMetadata | BytesStorageMetadata) -> ReadItem:
    if isinstance(saved, BytesStorageMetadata):
        index, zero, lengths, kind = MetadataIndex(key), torch.Size([0]), torch.Size([0]), LoadItemType.BYTE_IO
    else:
        zero, lengths, kind = torch.Size([0] * len(saved.size)), saved.size, LoadItemType.TENSOR
        index = MetadataIndex(key, zero)
    return ReadItem(
        type=kind, dest_index=index, dest_offsets=zero, storage_index=index, storage_offsets=zero, lengths=lengths
    )
