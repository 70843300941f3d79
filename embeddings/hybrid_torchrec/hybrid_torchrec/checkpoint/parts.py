"""Parts: how the rows of a table lie in a checkpoint.

A table `t` on shard s of n is saved as, for every part p of a bounded number of rows,

    t.shard-s-of-n.part-p.ids          int64 (R,)
    t.shard-s-of-n.part-p.weights      the table's dtype (R, D)
    t.shard-s-of-n.part-p.state.<name> float32 (R,) or (R, D), for every state of the optimizer
    t.shard-s-of-n.part-p.shows        float32 (R,); also clicks, and int64 last_step

beside `t.shard-s-of-n.info` (plain data), `t.shard-s-of-n.erased` (ids, of a delta) and `...policy-<name>` (counters of
the policies). They are plain tensors: any reader of torch.distributed.checkpoint reads them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hybrid_torchrec.row_batch import RowBatch

PART_BYTES = 32 << 20
INFO, ERASED, POLICY = "info", "erased", "policy-"
_KEY = re.compile(r"shard-(?P<shard>\d+)-of-(?P<shards>\d+)\.(?:part-(?P<part>\d+)\.)?(?P<field>.+)")


class Key(NamedTuple):
    """Place of a saved tensor within its table."""

    shard: int
    shards: int
    part: int | None
    field: str

    @property
    def path(self) -> tuple[str, ...]:
        middle = () if self.part is None else (f"part-{self.part:05d}",)
        return f"shard-{self.shard:05d}-of-{self.shards:05d}", *middle, self.field

    def under(self, table: str) -> str:
        return ".".join((table, *self.path))

    @classmethod
    def parse(cls, table: str, key: str) -> Key | None:
        match = _KEY.fullmatch(key.removeprefix(f"{table}.")) if key.startswith(f"{table}.shard-") else None
        if match is None:
            return None
        part = None if match["part"] is None else int(match["part"])
        return cls(int(match["shard"]), int(match["shards"]), part, match["field"])


class Shape(NamedTuple):
    dtype: torch.dtype
    size: torch.Size


@dataclass(frozen=True)
class Rows:
    """What is saved of one table on one shard: bounded parts, made when they are asked for.

    `read(first, last)` gives rows [first, last) on the CPU; `like` is a batch of no rows that tells dtypes and widths.
    """

    count: int
    like: RowBatch
    read: Callable[[int, int], RowBatch]
    info: dict[str, Any]
    policy: dict[str, Tensor]
    erased: Tensor | None = None

    @classmethod
    def of(cls, batch: RowBatch, info: dict[str, Any], **kept: Any) -> Rows:
        index = torch.arange(len(batch))
        return cls(len(batch), batch.select(index[:0]), lambda i, j: batch.select(index[i:j]), info, **kept)

    @property
    def rows_per_part(self) -> int:
        row_bytes = sum(
            value.element_size() * math.prod(value.shape[1:]) for value in self.like.named_tensors().values()
        )
        return max(1, PART_BYTES // row_bytes)

    def parts(self) -> Iterator[tuple[int, int]]:
        for first in range(0, self.count, self.rows_per_part):
            yield first, min(first + self.rows_per_part, self.count)

    def shapes(self, rows: int) -> dict[str, Shape]:
        tensors = self.like.named_tensors()
        return {name: Shape(value.dtype, torch.Size((rows, *value.shape[1:]))) for name, value in tensors.items()}
