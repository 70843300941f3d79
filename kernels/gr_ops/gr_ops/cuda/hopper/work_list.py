"""The list of work of ragged rows, made on the device: the host knows neither their lengths nor their tiles."""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.hopper.tile_ranges import row_of

CHUNK = 1024  # sequences that a program of `list_tiles` compares at a time


# Nothing of an argument's value or alignment: the launcher (launch.py) keeps one compiled kernel for all.
@triton.jit(
    do_not_specialize=["sequences", "total", "longest", "capacity"],
    do_not_specialize_on_alignment=["offsets", "items"],
)
def list_tiles(
    offsets, items, sequences, total, longest, capacity, SIZE: tl.constexpr, CHUNK: tl.constexpr, RISING: tl.constexpr
):
    """items[0]: how many; then sequence << 32 | tile, longest sequences first and their last tiles first, or RISING.

    A program places one sequence: behind the tiles of all that are longer, or as long and before it.
    """
    own = tl.program_id(0)
    _, length, _, _ = row_of(offsets, offsets, offsets, own, total, longest, False)
    before = tl.zeros([CHUNK], tl.int32)
    tiles = tl.zeros([CHUNK], tl.int32)
    for start in range(0, sequences, CHUNK):
        other = start + tl.arange(0, CHUNK)
        inside = other < sequences
        begin = tl.minimum(tl.maximum(tl.load(offsets + other, mask=inside, other=0), 0), total).to(tl.int32)
        end = tl.minimum(tl.load(offsets + other + 1, mask=inside, other=0), total).to(tl.int32)
        lengths = tl.minimum(tl.maximum(end - begin, 0), longest)
        count = (lengths + SIZE - 1) // SIZE
        earlier = (lengths > length) | ((lengths == length) & (other < own))
        before += tl.where(inside & earlier, count, 0)
        tiles += tl.where(inside, count, 0)
    first = tl.sum(before, 0)
    if own == 0:
        tl.store(items, tl.minimum(tl.sum(tiles, 0), capacity).to(tl.int64))
    many = (length + SIZE - 1) // SIZE
    for start in range(0, many, CHUNK):
        number = start + tl.arange(0, CHUNK)
        tile = number if RISING else many - 1 - number
        item = (own.to(tl.int64) << 32) | tile.to(tl.int64)
        tl.store(items + 1 + first + number, item, mask=(number < many) & (first + number < capacity))
