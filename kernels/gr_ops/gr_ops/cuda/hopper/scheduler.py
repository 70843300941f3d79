"""The order of work: items of a sequence, a head and a tile, costly ones first, handed out one by one.

A program stays on its multiprocessor and draws its next item from a counter, so nobody waits for a fixed share. Rows of
one length are numbered by arithmetic; ragged ones have a list (work_list.py), whose length is that of real tiles, not
of B times the longest row's.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def how_many(items, sequences, tiles, HEADS: gl.constexpr, LISTED: gl.constexpr):
    """Items in all."""
    count = sequences * tiles
    if LISTED:
        count = gl.load(items).to(gl.int32)
    return count * HEADS


@gluon.jit
def item_of(number, items, sequences, tiles, swizzle, HEADS: gl.constexpr, LISTED: gl.constexpr, RISING: gl.constexpr):
    """Sequence, head and tile. Without a list `swizzle` rows of heads share the L2 cache: their costliest tiles come
    first, the last ones or the first (RISING), then all others of these rows, and then the next so many rows."""
    if LISTED:
        item = gl.load(items + 1 + number // HEADS)
        sequence = (item >> 32).to(gl.int32)
        tile = item.to(gl.int32)
        head = number % HEADS
    else:
        of_group = swizzle * tiles
        group = number // of_group
        inside = number - group * of_group
        rows = gl.minimum(swizzle, sequences * HEADS - group * swizzle)
        tile = inside // rows if RISING else tiles - 1 - inside // rows
        row = group * swizzle + inside % rows
        sequence = row // HEADS
        head = row % HEADS
    return sequence, head, tile
