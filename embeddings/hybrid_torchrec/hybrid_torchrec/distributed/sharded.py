"""What the sharded collections share: distribution of ids, lookup on the owners, return of the rows.

A rank sends each distinct id of its batch once, to the rank that owns it, and gets the row back; it pools (or repeats)
rows itself. So any pooling, weights and lengths work the same for every sharding type, weights get their gradients, and
traffic grows with distinct ids.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torchrec.distributed.embedding_types import KJTList
from torchrec.distributed.types import (
    Awaitable,
    LazyAwaitable,
    LazyNoWait,
    ParameterSharding,
    ShardedModule,
    ShardingEnv,
    ShardingEnv2D,
)
from torchrec.optim.fused import FusedOptimizerModule
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

from hybrid_torchrec.distributed.context import (
    CountsExchange,
    HashContext,
    HashInput,
    InputRequest,
    OwnedIds,
    immediate,
    unwrap,
)
from hybrid_torchrec.distributed.exchange import RowExchange
from hybrid_torchrec.distributed.placement import ColumnShard, place_all
from hybrid_torchrec.distributed.routing import Distinct, make_route
from hybrid_torchrec.distributed.table import ShardedTableModule
from hybrid_torchrec.host_copies import to_device
from hybrid_torchrec.modules.collection import FusedCollection, TableDict
from hybrid_torchrec.modules.grouping import GroupLookup, PartGroup, TableGroups
from hybrid_torchrec.modules.ids import joined_ids
from hybrid_torchrec.modules.optimizer import HashOptimizer
from hybrid_torchrec.modules.table import TablePart

Out = TypeVar("Out")


class OutputAwaitable(LazyAwaitable[Out]):
    """Waits for the rows, and makes the output of them."""

    def __init__(self, exchange: RowExchange, token: Tensor, finish: Callable[[tuple[Tensor, ...]], Out]) -> None:
        super().__init__()
        self._exchange = exchange
        self._token = token
        self._finish = finish

    def _wait_impl(self) -> Out:
        return self._finish(self._exchange.wait(self._token))


@dataclass
class OwnedRows:
    """Rows that this rank owes to others, and where they come from."""

    rows: list[Tensor]  # per group, by column shard, then by rank
    lookups: list[list[tuple[PartGroup, GroupLookup, list[int]]]]  # per group: parts, their slots, their places in it
    lengths: list[list[int]]  # per group: rows of each of its shards that are here
    owned: Tensor  # (W, S) int64 on the host


class ShardedHashModule(
    ShardedModule[KJTList, OwnedRows | HashInput, Out, HashContext], FusedOptimizerModule, Generic[Out]
):
    """Base of the sharded collections.

    Args:
        module: the collection: its tables' optimizers and rows are taken over.
        plan: by table.
        env: ranks.
        device: of the rows.
    """

    tables_name: str  # "embedding_bags" or "embeddings": as in torchrec's parameter names
    awaitable: type[OutputAwaitable[Out]]

    def __init__(
        self,
        module: FusedCollection,
        plan: Mapping[str, ParameterSharding],
        env: ShardingEnv,
        fused_params: Mapping[str, Any] | None,
        device: torch.device,
    ) -> None:
        super().__init__()
        if isinstance(env, ShardingEnv2D):
            raise ValueError("hash tables cannot be replicated (ShardingEnv2D): replicas would hold different ids")
        if env.process_group is None and env.world_size > 1:
            raise ValueError(f"{env.world_size} ranks need a process group: ShardingEnv.from_process_group")
        self._world_size = env.world_size
        self._group = env.process_group
        self._configs = configs = [table.config for table in module.tables().values()]
        self._device = device
        self._unsharded = type(module)
        self.module_sharding_plan = dict(plan)
        placement = place_all(list(configs), plan, env.world_size)
        tables = TableDict()
        for config in configs:
            tables[config.name] = ShardedTableModule(
                module.tables()[config.name], placement[config.name], self._group, env.rank, fused_params, device
            )
        self.add_module(self.tables_name, tables)
        self._number_shards(placement)
        weights = {f"{self.tables_name}.{config.name}.weight": self._table(config.name).weight for config in configs}
        self._optim = HashOptimizer(weights, [table.group for table in self._tables()])
        for table in self._tables():
            table.weight._in_backward_optimizers = [self._optim]
        self._table_groups = TableGroups()  # with one rank
        self._table_groups_of = [TableGroups() for _ in self._groups]
        self._with_occurrences = any(table.counts_occurrences for table in self._tables())

    def _number_shards(self, placement: Mapping[str, list[ColumnShard]]) -> None:
        """Column shards by group; a group's rows have one width and storage type and travel in one tensor."""
        by_kind: dict[tuple[int, torch.dtype], list[ColumnShard]] = {}
        for config in self._configs:
            for shard in placement[config.name]:
                by_kind.setdefault((shard.width, self._table(config.name).dtype), []).append(shard)
        self._shards = [shard for group in by_kind.values() for shard in group]
        self._groups: list[range] = []
        for group in by_kind.values():
            start = self._groups[-1].stop if self._groups else 0
            self._groups.append(range(start, start + len(group)))
        self._shards_of: dict[str, list[int]] = {config.name: [] for config in self._configs}
        for number, shard in sorted(enumerate(self._shards), key=lambda item: item[1].column):
            self._shards_of[shard.table].append(number)

    def _table(self, name: str) -> ShardedTableModule:
        table: ShardedTableModule = getattr(self, self.tables_name)[name]
        return table

    def _tables(self) -> list[ShardedTableModule]:
        return [self._table(config.name) for config in self._configs]

    @property
    def fused_optimizer(self) -> HashOptimizer:
        return self._optim

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """Of the collection; releases of torchrec after 1.1 want it."""
        return self._unsharded

    def create_context(self) -> HashContext:
        return HashContext()

    def input_dist(self, ctx: HashContext, features: KeyedJaggedTensor) -> Awaitable[Awaitable[KJTList]]:
        ctx.features = features
        if self._world_size == 1:
            return immediate(features)
        with torch.no_grad():
            per_feature = features.to_dict()
            distinct = {
                config.name: Distinct.of(
                    joined_ids([per_feature[feature].values() for feature in config.feature_names], config.name)
                )
                for config in self._configs
            }
            route = make_route(
                [distinct[shard.table] for shard in self._shards], self._shards, self._groups, self._world_size
            )
            rows_of_values = [
                rows.index_select(0, distinct[shard.table].inverse) for rows, shard in zip(route.rows, self._shards)
            ]
            ctx.in_order = len(self._groups) == len(self._shards) and all(
                of_values.numel() == rows.numel() and _in_order(of_values)
                for of_values, rows in zip(rows_of_values, route.rows)
            )
            ctx.rows = [to_device(rows, self._device) for rows in rows_of_values]
            self._prepare(ctx, per_feature)

            def remember(asked: Tensor) -> None:
                ctx.asked = asked

            group = self._pg if features.device().type == self._device.type else self._host_group
            return InputRequest(CountsExchange(group, route, self._with_occurrences, remember))

    @property
    def _pg(self) -> dist.ProcessGroup:
        assert self._group is not None
        return self._group

    @functools.cached_property
    def _host_group(self) -> dist.ProcessGroup:
        """The same ranks over gloo: ids that are on the host travel between hosts, and nobody waits for a device."""
        if self._device.type == "cpu":
            return self._pg
        ranks = dist.get_process_group_ranks(self._pg)
        return dist.new_group(ranks, backend="gloo", use_local_synchronization=True)

    def compute(self, ctx: HashContext, dist_input: KJTList) -> OwnedRows | HashInput:
        owned = unwrap(dist_input)
        if not isinstance(owned, OwnedIds):
            return owned
        with torch.no_grad():
            return self._look_up(owned)

    def _look_up(self, owned: OwnedIds) -> OwnedRows:
        """Every table is asked in every step, also for no ids: its step count is the same on all ranks."""
        starts = (owned.counts.flatten().cumsum(0) - owned.counts.flatten()).view_as(owned.counts).tolist()
        counts = owned.counts.tolist()
        result = OwnedRows([], [], [], owned.counts)
        for group, table_groups in zip(self._groups, self._table_groups_of):
            parts: list[TablePart] = []
            ids: list[Tensor] = []
            occurrences: list[Tensor] = []
            for number in group:
                part = self._table(self._shards[number].table).part_at(self._shards[number].column)
                if part is None:
                    continue
                blocks = [
                    slice(starts[rank][number], starts[rank][number] + counts[rank][number])
                    for rank in range(self._world_size)
                ]
                parts.append(part)
                ids.append(torch.cat([owned.ids[block] for block in blocks]))
                if owned.occurrences is not None:
                    occurrences.append(torch.cat([owned.occurrences[block] for block in blocks]))
            first = self._shards[group.start]
            dtype = self._table(first.table).dtype  # of the rows in storage, which loses nothing
            rows = [torch.empty(0, first.width, dtype=dtype, device=self._device)] * len(parts)
            lookups = []
            for some, places in table_groups.groups(parts):
                seen = [occurrences[place] for place in places] if occurrences else None
                lookup = some.assign([ids[place] for place in places], train=self.training, occurrences=seen)
                for place, found in zip(places, some.rows(lookup).to(dtype).split(list(lookup.lengths))):
                    rows[place] = found
                lookups.append((some, lookup, places))
            none = torch.empty(0, first.width, dtype=dtype, device=self._device)
            result.rows.append(rows[0] if len(rows) == 1 else torch.cat([none, *rows]))
            result.lookups.append(lookups)
            result.lengths.append([len(part) for part in ids])
        return result

    def output_dist(self, ctx: HashContext, output: OwnedRows | HashInput) -> LazyAwaitable[Out]:
        if not isinstance(output, OwnedRows):
            return LazyNoWait(self._local_output(output))
        assert ctx.asked is not None

        exchange = RowExchange(
            self._pg, ctx.asked, output.owned, self._groups, output.rows, functools.partial(self._update, output)
        )
        token = exchange.start([table.weight for table in self._tables()])
        return self.awaitable(exchange, token, lambda answers: self._remote_output(ctx, answers))

    def _update(self, output: OwnedRows, group: int, grads: Tensor) -> None:
        """grads: of the group's rows in `output`."""
        each = grads.split(output.lengths[group])
        for parts, lookup, places in output.lookups[group]:
            parts.update(lookup, [each[place] for place in places])

    @abc.abstractmethod
    def _prepare(self, ctx: HashContext, features: Mapping[str, JaggedTensor]) -> None:
        """What can be computed of a batch before its rows are there."""

    @abc.abstractmethod
    def _local_output(self, features: KeyedJaggedTensor) -> Out:
        """With one rank."""

    @abc.abstractmethod
    def _remote_output(self, ctx: HashContext, answers: tuple[Tensor, ...]) -> Out:
        """answers: of each group, the rows of this rank's distinct ids."""


def _in_order(rows: Tensor) -> bool:
    """Whether rows (L,) are 0, 1, ...; not asked of a device, which the host would wait for."""
    return rows.device.type == "cpu" and torch.equal(rows, torch.arange(rows.numel()))
