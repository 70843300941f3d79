"""A table whose rows are spread over ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from hybrid_torchrec.distributed.placement import ColumnShard
from hybrid_torchrec.modules.table import TableModule, TablePart, columns_of, copy_clocks


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
        self.group["lr"] = source.group["lr"] if source.made else spec.lr
        for shard in shards:
            if rank in shard.ranks:
                index = shard.ranks.index(rank)
                config = self.table_config(spec, shard.column, shard.width, index, len(shard.ranks))
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
        old = source.whole.table
        ids = old.ids()
        rows, _ = old.read(ids[shard.owner(ids) == self.rank])
        part.table.write(columns_of(rows, shard.column, shard.width))
        copy_clocks(old, part.table)
