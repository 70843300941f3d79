"""A table whose rows are spread over ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed._shard.sharded_tensor import ShardedTensor

from hybrid_torchrec.distributed.placement import ColumnShard
from hybrid_torchrec.distributed.state import own_rows, row_counts, send_to_owners, sharded
from hybrid_torchrec.modules import state
from hybrid_torchrec.modules.config import table_config
from hybrid_torchrec.modules.table import TableModule, TablePart
from hybrid_torchrec.table import RowBatch
from hybrid_torchrec.table.copying import copy_into


class ShardedTableModule(TableModule):
    """This rank's parts of a table: one for each of its column shards of which the rank owns ids.

    Args:
        source: the unsharded table; its optimizer, and its rows if it has any, are taken over.
        shards: of the whole table, by column.
        group: the ranks; None for a single one.
    """

    def __init__(
        self,
        source: TableModule,
        shards: Sequence[ColumnShard],
        group: dist.ProcessGroup | None,
        rank: int,
        fused_params: Mapping[str, Any] | None,
        device: torch.device,
    ) -> None:
        super().__init__(source.config, device)
        self.shards = tuple(shards)
        self.process_group = group
        self.rank = rank
        self.weight.requires_grad_(source.weight.requires_grad)
        spec = source.whole.table.config.optimizer if source.made else source.spec(fused_params)
        self.optimizer = spec
        self.group["lr"] = source.group["lr"] if source.made else spec.lr
        for shard in shards:
            if rank in shard.ranks:
                index = shard.ranks.index(rank)
                config = table_config(
                    self.config, spec, column=shard.column, width=shard.width, share=index, shares=len(shard.ranks)
                )
                self.add_part(config, shard.column, device)
                if source.made:
                    self._take_over(source, shard, self._parts[-1])

    @property
    def parts(self) -> list[TablePart]:
        return self._parts

    def part_at(self, column: int) -> TablePart | None:
        return next((part for part in self._parts if part.column == column), None)

    def _take_over(self, source: TableModule, shard: ColumnShard, part: TablePart) -> None:
        """Every rank has the whole source and keeps what it owns."""
        copy_into(
            source.whole.table,
            part.table,
            owned=lambda ids: shard.owner(ids) == self.rank,
            columns=(shard.column, shard.width),
        )

    # State: collective where there are several ranks, in the same order on all of them.

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """An unsharded table's keys, with ShardedTensors; those of several column shards begin `columns_<first>.`"""
        clock = torch.zeros(4, dtype=torch.int64, device=self.weight.device)
        for shard in self.shards:
            part = self.part_at(shard.column)
            tensors = self._no_rows(shard) if part is None else state.rows_to_state(part.table)
            clock = clock if part is None else state.clock_of(part.table).to(clock.device)
            if self.process_group is not None:
                counts = row_counts(self.process_group, tensors["ids"].numel(), self.weight.device)
                tensors = {key: sharded(tensor, counts, self.process_group) for key, tensor in tensors.items()}
            destination.update({f"{prefix}{self._name(shard)}{key}": tensor for key, tensor in tensors.items()})
        if self.process_group is not None:
            dist.all_reduce(clock, op=dist.ReduceOp.MAX, group=self.process_group)
        destination[prefix + state.CLOCK] = clock.cpu()

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Takes shards of as many ranks as there are now, or whole tensors, of which each rank keeps what it owns."""
        names = {}
        known = {prefix + state.CLOCK}
        for shard in self.shards:
            name = prefix + self._name(shard)
            if f"{name}ids" not in state_dict:
                name = prefix  # of an unsharded table: its columns are cut here
            names[shard] = {key: name + key for key in self._no_rows(shard)}
            known.update(names[shard].values())
        missing = sorted(key for key in known if key not in state_dict)
        unexpected = state.unexpected(state_dict, prefix, known)
        missing_keys.extend(missing)
        unexpected_keys.extend(unexpected)
        # Alike on all ranks, which exchange rows from here on.
        refused = state.of_another_optimizer(unexpected, prefix, table_config(self.config, self.optimizer))
        error_msgs.extend(refused)
        if missing or refused:
            return
        for shard in self.shards:
            tensors = {key: state_dict[name] for key, name in names[shard].items()}
            rows = state.rows_from_state({key: own_rows(tensor) for key, tensor in tensors.items()})
            rows = rows.columns(shard.column if rows.dim > shard.width else 0, shard.width)
            if isinstance(tensors["ids"], ShardedTensor) and self.process_group is not None:
                rows = send_to_owners(rows, shard, self.process_group, self.weight.device)
            else:
                rows = rows.select(shard.owner(rows.ids) == self.rank)
            part = self.part_at(shard.column)
            if part is not None:
                try:
                    state.replace_rows(part.table, rows, state_dict[prefix + state.CLOCK])
                except ValueError as error:  # the table has its rows still
                    error_msgs.append(f"{prefix}: {error}")

    def _name(self, shard: ColumnShard) -> str:
        return "" if len(self.shards) == 1 else f"columns_{shard.column}."

    def _no_rows(self, shard: ColumnShard) -> dict[str, Tensor]:
        widths = self.optimizer.state_widths(shard.width)
        rows = RowBatch.empty(shard.width, widths, self.dtype, self.weight.device).named_tensors()
        rows["weight"] = rows.pop("weights")
        return rows
