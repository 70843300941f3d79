"""Launches of the kernels on ids: one table's, or those of several tables at once.

per_table: which elements of the arguments are of which table; None: all are of one. parts (T, PARTS) int64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from hybrid_torchrec.backends.cuda import map_kernels as kernels
from hybrid_torchrec.backends.cuda import sighting_kernels
from hybrid_torchrec.backends.cuda.launches import launch
from hybrid_torchrec.backends.cuda.layout import constants
from hybrid_torchrec.backends.cuda.map_kernels import ALLOCATION_BLOCK, BLOCK
from hybrid_torchrec.backends.cuda.sorted_slots import SortedSlots, key_type
from hybrid_torchrec.backends.cuda.table_offsets import TableOffsets, longest_of, starts_of

(PARTS,) = constants("PARTS")
WARPS = 1  # lanes of a block wait for each other's search


def parts_tensor(words: list[int], device: torch.device) -> torch.Tensor:
    """(1, PARTS) of a table's addresses and sizes, in the order of layout.py; missing ones are 0."""
    return torch.tensor([words + [0] * (PARTS - len(words))], dtype=torch.int64).to(device)


def padded(count: int, device: torch.device) -> torch.Tensor:
    """(count,) int64, not set, with words behind it that lanes without work may swap."""
    return torch.empty(count + BLOCK, dtype=torch.int64, device=device)[:count]


def _grid(ids: torch.Tensor, parts: torch.Tensor, per_table: TableOffsets | None) -> tuple[int, int]:
    return triton.cdiv(longest_of(per_table, len(ids)), BLOCK), parts.shape[0]


def find(
    ids: torch.Tensor,
    parts: torch.Tensor,
    per_table: TableOffsets | None = None,
    *,
    count_hits: bool = False,
    clamp: bool = False,
) -> torch.Tensor:
    slots = torch.empty_like(ids)
    if len(ids):
        launch(
            kernels.find,
            _grid(ids, parts, per_table),
            (ids, slots, parts, starts_of(per_table, ids), len(ids)),
            {"COUNT_HITS": count_hits, "CLAMP": clamp, "GROUPED": per_table is not None, "BLOCK": BLOCK},
            num_warps=WARPS,
        )
    return slots


@dataclass(frozen=True)
class NewIdCounts:
    """New ids of a batch: of each table and program (T, programs) int32, and occurrences of ids without a row (T,)."""

    per_program: torch.Tensor
    absent: torch.Tensor


def find_or_insert(
    ids: torch.Tensor,
    parts: torch.Tensor,
    per_table: TableOffsets | None = None,
    *,
    count_hits: bool,
) -> tuple[torch.Tensor, NewIdCounts]:
    """slots as map_kernels.find_or_insert gives them, and what is new."""
    slots = padded(len(ids), ids.device)
    tables, programs = parts.shape[0], triton.cdiv(longest_of(per_table, len(ids)), ALLOCATION_BLOCK)
    words = torch.zeros(tables * (programs + 1), dtype=torch.int32, device=ids.device)
    new_counts = NewIdCounts(words[tables:].view(tables, programs), words[:tables])
    if len(ids):
        grid, grouped = _grid(ids, parts, per_table), per_table is not None
        starts = starts_of(per_table, ids)
        launch(
            kernels.find_or_insert,
            grid,
            (ids, slots, new_counts.absent, parts, starts, len(ids)),
            {"COUNT_HITS": count_hits, "GROUPED": grouped, "BLOCK": BLOCK},
            num_warps=WARPS,
        )
        launch(
            kernels.count_new,
            (programs, tables),
            (slots, new_counts.per_program, new_counts.absent, parts, starts, len(ids)),
            {"GROUPED": grouped, "BLOCK": ALLOCATION_BLOCK},
            num_warps=4,
        )
    return slots, new_counts


@dataclass(frozen=True)
class SlotAllocation:
    """ids (L,) and slots (L,) of new rows, as map_kernels.allocate_slots has them.

    keys (L,): of the whole batch, by which it is sorted (sorted_slots.py).
    """

    ids: torch.Tensor
    slots: torch.Tensor
    keys: torch.Tensor


def allocate_slots(
    ids: torch.Tensor,
    slots: torch.Tensor,
    new_counts: NewIdCounts,
    parts: torch.Tensor,
    step: int,
    version: int,
    bits: int,
    per_table: TableOffsets | None = None,
) -> SlotAllocation:
    """Completes `slots`, all of which are < 2^bits."""
    new_ids, new_slots = torch.empty_like(ids), torch.empty_like(ids)
    keys = torch.empty(len(ids), dtype=key_type(bits, parts.shape[0]), device=ids.device)
    if len(ids):
        tables, programs = new_counts.per_program.shape
        grid, grouped = (programs, tables), per_table is not None
        starts = starts_of(per_table, ids)
        sums, absent_counts = new_counts.per_program, new_counts.absent
        constants = {"GROUPED": grouped, "BLOCK": ALLOCATION_BLOCK}
        launch(
            kernels.allocate_slots,
            grid,
            (ids, slots, sums, new_ids, new_slots, parts, starts, len(ids), step, version),
            constants,
            num_warps=4,
        )
        launch(
            kernels.resolve_slots,
            grid,
            (slots, keys, sums, absent_counts, parts, starts, len(ids), bits),
            constants,
            num_warps=4,
        )
    return SlotAllocation(new_ids, new_slots, keys)


def set_buckets(ids: torch.Tensor, values: torch.Tensor, parts: torch.Tensor) -> None:
    if len(ids):
        grid = (triton.cdiv(len(ids), BLOCK),)
        launch(kernels.set_buckets, grid, (ids, values, parts, len(ids)), {"BLOCK": BLOCK}, num_warps=WARPS)


def rehash(old: torch.Tensor, old_count: int, buckets: torch.Tensor, mask: int, moved: torch.Tensor) -> None:
    grid = (triton.cdiv(old_count, BLOCK),)
    launch(kernels.rehash, grid, (old, old_count, buckets, mask, moved), {"BLOCK": BLOCK}, num_warps=WARPS)


def count(sorted_slots: SortedSlots, parts: torch.Tensor, step: int) -> None:
    """A sighting of the row of each key."""
    keys = sorted_slots.keys
    if len(keys):
        launch(
            sighting_kernels.count_runs,
            (triton.cdiv(len(keys), ALLOCATION_BLOCK),),
            (keys, parts, len(keys), sorted_slots.bits, step),
            {"BLOCK": ALLOCATION_BLOCK},
            num_warps=4,
        )
