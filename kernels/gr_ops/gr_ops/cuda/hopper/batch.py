"""A batch as the kernels for Hopper see it: jagged rows, their masks, the order of work."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from gr_ops.cuda.hopper.scheduler import how_many, item_of
from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.tile_ranges import key_tile, key_tiles, query_tile, query_tiles, row_of
from gr_ops.cuda.hopper.work_queue import Item
from gr_ops.cuda.mask import visible

# What the compiled kernel must not depend on (launch.py).
NUMBERS = ["sequences", "tiles", "swizzle", "total", "longest", "group", "window", "min_full"]
POINTERS = ["offsets", "contexts", "targets", "items", "counter"]


@struct
class KeyTiles:
    """The tiles of keys that a tile of queries sees, those that need a mask first (tile_ranges.py)."""

    edge: gl.tensor
    stop: gl.tensor
    start_2: gl.tensor
    stop_2: gl.tensor
    start: gl.tensor
    inner: gl.tensor
    masked: gl.tensor
    unmasked: gl.tensor
    SEGMENTS: gl.constexpr
    K: gl.constexpr

    @gluon.jit
    def tile(self, number):
        """Where a tile begins, and where its range ends."""
        return key_tile(
            number,
            self.edge,
            self.stop,
            self.start_2,
            self.stop_2,
            self.start,
            self.inner,
            self.masked,
            self.SEGMENTS,
            self.K,
        )


@struct
class QueryTiles:
    """The tiles of queries that see a tile of keys, those that need a mask first."""

    start: gl.tensor
    stop: gl.tensor
    start_2: gl.tensor
    stop_2: gl.tensor
    inner: gl.tensor
    behind: gl.tensor
    masked: gl.tensor
    unmasked: gl.tensor
    SEGMENTS: gl.constexpr
    Q: gl.constexpr

    @gluon.jit
    def tile(self, number):
        """Where a tile begins, and where its range ends."""
        return query_tile(
            number,
            self.start,
            self.stop,
            self.start_2,
            self.stop_2,
            self.inner,
            self.behind,
            self.masked,
            self.SEGMENTS,
            self.Q,
        )


@struct
class Batch:
    offsets: gl.tensor
    contexts: gl.tensor
    targets: gl.tensor
    items: gl.tensor
    counter: gl.tensor
    sequences: gl.tensor
    tiles: gl.tensor
    swizzle: gl.tensor
    total: gl.tensor
    longest: gl.tensor
    group: gl.tensor
    window: gl.tensor
    min_full: gl.tensor
    HEADS: gl.constexpr
    LISTED: gl.constexpr
    SEGMENTS: gl.constexpr
    WINDOW: gl.constexpr
    RISING: gl.constexpr
    TILE: gl.constexpr  # queries or keys of an item

    @gluon.jit
    def how_many(self):
        return how_many(self.items, self.sequences, self.tiles, self.HEADS, self.LISTED)

    @gluon.jit
    def item(self, number):
        sequence, head, tile = item_of(
            number, self.items, self.sequences, self.tiles, self.swizzle, self.HEADS, self.LISTED, self.RISING
        )
        begin, length, context, history = row_of(
            self.offsets, self.contexts, self.targets, sequence, self.total, self.longest, self.SEGMENTS
        )
        if not self.LISTED:  # rows of one length; offsets that lie would leave items without tokens, to be waited for
            begin = sequence * self.longest
            length = self.longest
            if not self.SEGMENTS:
                history = length
        return Item(tile, head, begin, length, context, history, sequence)

    @gluon.jit
    def key_tiles(self, item, K: gl.constexpr):
        """Of an item's queries."""
        first = item.tile * self.TILE
        last = gl.minimum(first + self.TILE, item.length) - 1
        edge, stop, start_2, stop_2, start, inner, masked, unmasked = key_tiles(
            first,
            last,
            item.length,
            item.context,
            item.history,
            self.group,
            self.window,
            self.min_full,
            self.SEGMENTS,
            self.WINDOW,
            K,
        )
        return KeyTiles(
            gl.to_tensor(edge),
            gl.to_tensor(stop),
            gl.to_tensor(start_2),
            gl.to_tensor(stop_2),
            gl.to_tensor(start),
            gl.to_tensor(inner),
            masked,
            unmasked,
            self.SEGMENTS,
            K,
        )

    @gluon.jit
    def query_tiles(self, item, Q: gl.constexpr):
        """Of an item's keys."""
        first = item.tile * self.TILE
        last = gl.minimum(first + self.TILE, item.length) - 1
        start, stop, start_2, stop_2, inner, behind, masked, unmasked = query_tiles(
            first,
            last,
            item.length,
            item.context,
            item.history,
            self.group,
            self.window,
            self.min_full,
            self.SEGMENTS,
            self.WINDOW,
            Q,
        )
        return QueryTiles(
            gl.to_tensor(start),
            gl.to_tensor(stop),
            gl.to_tensor(start_2),
            gl.to_tensor(stop_2),
            gl.to_tensor(inner),
            gl.to_tensor(behind),
            masked,
            unmasked,
            self.SEGMENTS,
            Q,
        )

    @gluon.jit
    def sees(self, query, key, item):
        return visible(
            query,
            key,
            item.length,
            item.context,
            item.history,
            self.group,
            self.window,
            self.min_full,
            0,
            self.SEGMENTS,
            self.WINDOW,
        )


@gluon.jit
def tanh(x):
    """One instruction; its error of 2^-11 is below that of the 16 bits that the result becomes."""
    return gl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=gl.float32, is_pure=True, pack=1)
