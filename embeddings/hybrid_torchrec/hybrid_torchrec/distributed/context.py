"""What travels between the steps of a sharded module: contexts, inputs, and their awaitables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor
from torchrec.distributed.embedding_types import KJTList
from torchrec.distributed.types import Awaitable, NoWait
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor
from torchrec.streamable import Multistreamable

from hybrid_torchrec.distributed.exchange import AllToAll
from hybrid_torchrec.distributed.routing import Route


@dataclass
class BagIndex:
    """The bags of a group of column shards, feature after feature."""

    rows: Tensor  # (L,) int64, row of each value in the group's answer
    offsets: Tensor  # (sum of sizes + 1,) int64
    sizes: list[int]  # bags of each feature


@dataclass
class HashContext(Multistreamable):
    """What the rank that asked keeps until the rows come back."""

    features: KeyedJaggedTensor | None = None
    rows: list[Tensor] = field(default_factory=list)  # by column shard: (L,) rows of its group's answer
    in_order: bool = False  # each shard is its group's only one, and its values are the answer as it comes
    bags: list[BagIndex] = field(default_factory=list)  # by group; of pooled collections
    asked: Tensor | None = None  # (W, S) int64 on the host

    def record_stream(self, stream: torch.Stream) -> None:
        if self.features is not None:
            _record_features(self.features, stream)
        for tensor in (*self.rows, *(part for bag in self.bags for part in (bag.rows, bag.offsets))):
            _record(tensor, stream)


@dataclass
class OwnedIds(Multistreamable):
    """Ids that other ranks ask of this one, by rank, then by column shard."""

    ids: Tensor  # (N,) int64
    occurrences: Tensor | None  # (N,) int64
    counts: Tensor  # (W, S) int64 on the host

    def record_stream(self, stream: torch.Stream) -> None:
        _record(self.ids, stream)
        if self.occurrences is not None:
            _record(self.occurrences, stream)


@dataclass
class WholeBatch(Multistreamable):
    """A batch that stays on its only rank, which is not split up; its ids may be on the host."""

    features: KeyedJaggedTensor

    def record_stream(self, stream: torch.Stream) -> None:
        _record_features(self.features, stream)


HashInput: TypeAlias = OwnedIds | KeyedJaggedTensor


def _record(tensor: Tensor, stream: torch.Stream) -> None:
    if tensor.device.type not in ("cpu", "meta"):
        tensor.record_stream(stream)


def _record_features(features: KeyedJaggedTensor, stream: torch.Stream) -> None:
    if features.device().type not in ("cpu", "meta"):
        features.record_stream(stream)


class InputRequest(Awaitable[Awaitable[KJTList]]):
    """The two waits of an input distribution, in the form that torchrec's train pipelines merge with others."""

    def __init__(self, first: Awaitable[Awaitable[HashInput | WholeBatch]]) -> None:
        super().__init__()
        self.awaitables = [first]

    def _wait_impl(self) -> Awaitable[KJTList]:
        return _InputList(self.awaitables[0].wait())


class _InputList(Awaitable[KJTList]):
    def __init__(self, second: Awaitable[HashInput | WholeBatch]) -> None:
        super().__init__()
        self._second = second

    def _wait_impl(self) -> KJTList:
        return KJTList([self._second.wait()])


class CountsExchange(Awaitable[Awaitable[HashInput]]):
    """Tells every rank how many ids it gets; then sends them."""

    def __init__(
        self, group: dist.ProcessGroup, route: Route, with_occurrences: bool, on_counts: Callable[[Tensor], None]
    ) -> None:
        super().__init__()
        self._group = group
        self._route = route
        self._with_occurrences = with_occurrences
        self._on_counts = on_counts
        ones = [1] * group.size()
        self._counts = AllToAll(group, route.counts, ones, ones)

    def _wait_impl(self) -> Awaitable[HashInput]:
        asked, owned = torch.stack([self._route.counts, self._counts.wait()]).cpu().unbind()
        self._on_counts(asked)
        return IdsExchange(self._group, self._route, asked, owned, self._with_occurrences)


class IdsExchange(Awaitable[HashInput]):
    def __init__(
        self, group: dist.ProcessGroup, route: Route, asked: Tensor, owned: Tensor, with_occurrences: bool
    ) -> None:
        super().__init__()
        self._owned = owned
        self._with_occurrences = with_occurrences
        # Of the same type, ids and occurrences travel in one tensor.
        sent = torch.stack([route.ids, route.occurrences], dim=1) if with_occurrences else route.ids
        self._ids = AllToAll(group, sent, asked.sum(1).tolist(), owned.sum(1).tolist())

    def _wait_impl(self) -> HashInput:
        received = self._ids.wait()
        if not self._with_occurrences:
            return OwnedIds(received, None, self._owned)
        return OwnedIds(received[:, 0], received[:, 1], self._owned)


def immediate(features: KeyedJaggedTensor) -> InputRequest:
    """For one rank: nothing to exchange."""
    return InputRequest(NoWait(NoWait(WholeBatch(features))))


def unwrap(dist_input: KJTList | HashInput | WholeBatch) -> HashInput:
    given = dist_input[0] if isinstance(dist_input, KJTList) else dist_input
    return given.features if isinstance(given, WholeBatch) else given
