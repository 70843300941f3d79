"""The relative bias in the kernels for Hopper: position[distance] + time[bucket] of a tile's cells, and the gradient of
time; that of position is in position_sums.py.

The position's number depends on a cell's diagonal alone, so that a thread, which has 8 x 8 blocks of a tile, needs nine
pairs of numbers in place of thirty-two. Times bound a tile's buckets (times.py): one in most tiles, else as many
comparisons as there are further ones.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.times import BEFORE, BLOCK, FAR, bucket_of

_block = gl.constexpr(BLOCK)
_before = gl.constexpr(BEFORE)
_far = gl.constexpr(FAR)
# What the compiled kernel must not depend on (launch.py).
TABLES = ["band", "time", "times", "lows", "highs", "afters", "befores", "codes", "cells", "least"]
SUMS = ["of_position", "of_time"]


@gluon.constexpr_function
def _axis(n):
    """The layout of one axis of [4 warps, 8, 8], blocks of 8 x 8 as an accumulator of wgmma has them."""
    layout = gl.BlockedLayout([1, 1, 2], [1, 8, 4], [4, 1, 1], [2, 1, 0])
    for other in (2, 1, 0):
        if other != n:
            layout = gl.SliceLayout(other, layout)
    return layout


@struct
class Buckets:
    """Of a tile: the first one, and how many follow."""

    first: gl.tensor
    more: gl.tensor


@struct
class TimeSums:
    """Of a warpgroup's keys [64]: the gradient of one bucket's number, not yet in memory."""

    sums: gl.tensor
    bucket: gl.tensor


@struct
class Relative:
    """The tables of times.py, and the sums of gradients."""

    band: gl.tensor
    time: gl.tensor
    times: gl.tensor
    lows: gl.tensor
    highs: gl.tensor
    afters: gl.tensor
    befores: gl.tensor
    codes: gl.tensor
    cells: gl.tensor
    least: gl.tensor
    blocks: gl.tensor  # of the longest sequence
    of_position: gl.tensor
    of_time: gl.tensor
    distances: gl.tensor  # of the position's numbers
    ON: gl.constexpr
    SIGN: gl.constexpr  # 1: the rows of a tile are queries; -1: they are keys

    @gluon.jit
    def row_part(self, first, item, LAYOUT: gl.constexpr):
        """[64] of the block from `first` on: seconds from its least time, or to its greatest, at most FAR. Of tokens
        behind the row's end anything, as of columns."""
        row = item.begin + first + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT))
        return gl.load((self.afters if self.SIGN == 1 else self.befores) + row)

    @gluon.jit
    def _column_part(self, at, item, ALIGNED: gl.constexpr, LAYOUT: gl.constexpr):
        column = item.begin + at + gl.arange(0, 64, gl.SliceLayout(0, LAYOUT))
        if ALIGNED:
            part = gl.load((self.befores if self.SIGN == 1 else self.afters) + column)
        else:
            low, high = self._span(at, item, False)
            time = gl.load(self.times + gl.minimum(column, item.begin + item.length - 1))
            time = high - time if self.SIGN == 1 else time - low
            part = gl.minimum(time, _far).to(gl.int32)
        return part

    @gluon.jit
    def _span(self, at, item, ALIGNED: gl.constexpr):
        """The least and the greatest time of the 64 tokens from `at` on, by the blocks that they are in."""
        block = item.begin + gl.minimum(at, item.length - 1) // _block * _block
        low = gl.load(self.lows + block)
        high = gl.load(self.highs + block)
        if not ALIGNED:
            block = item.begin + (gl.minimum(at + 64, item.length) - 1) // _block * _block
            low = gl.minimum(low, gl.load(self.lows + block))
            high = gl.maximum(high, gl.load(self.highs + block))
        return low, high

    @gluon.jit
    def code(self, item, first, at):
        """Of the tile of 64 rows from `first` on and 64 columns from `at` on, both multiples of 64. To be asked for a
        tile ahead: a product would have to wait for it."""
        query = (first if self.SIGN == 1 else at) // _block
        key = (at if self.SIGN == 1 else first) // _block
        # A tile behind the row's end is not there; one before the diagonal has no cell, and any code will do.
        query = gl.minimum(query, (item.length - 1) // _block)
        key = gl.minimum(key, query)
        if self.ON:
            code = gl.load(self.codes + (item.sequence * self.blocks + query).to(gl.int64) * self.blocks + key)
        else:
            code = query * 0
        return code

    @gluon.jit
    def buckets(self, code, item, first, at, ALIGNED: gl.constexpr):
        """Of that tile; if not ALIGNED of any."""
        if ALIGNED:
            bucket = code & 65535
            more = code >> 16
        else:
            soonest, latest = self._apart(item, first, at, False)
            bucket = bucket_of(soonest, self.cells)
            more = bucket_of(latest, self.cells) - bucket
        return Buckets(bucket, more)

    @gluon.jit
    def _apart(self, item, first, at, ALIGNED: gl.constexpr):
        """The least and the greatest seconds from a key to a query of the tile."""
        low, high = self._span(first, item, True)
        column_low, column_high = self._span(at, item, ALIGNED)
        if self.SIGN == 1:
            soonest, latest = low - column_high, high - column_low
        else:
            soonest, latest = column_low - high, column_high - low
        return soonest, latest

    @gluon.jit
    def _near_edge(self, seconds, row_part, column_part):
        """[64, 64]: whether cells are at least so many seconds behind the tile's soonest; fewer than FAR. FAR in the
        parts stands for all that is further, which is behind any such edge."""
        return column_part[None, :] >= (seconds.to(gl.int32) - row_part)[:, None]

    @gluon.jit
    def _far_edge(self, least, item, first, at, LAYOUT: gl.constexpr):
        """The same of any number of seconds from key to query."""
        row = gl.minimum(first + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT)), item.length - 1) + item.begin
        column = gl.minimum(at + gl.arange(0, 64, gl.SliceLayout(0, LAYOUT)), item.length - 1) + item.begin
        of_row = self.SIGN * gl.load(self.times + row) - least
        of_column = self.SIGN * gl.load(self.times + column)
        return of_column[None, :] <= of_row[:, None]

    @gluon.jit
    def _diagonals(self, distance, LAYOUT: gl.constexpr):
        """[64, 64]: the position's numbers; `distance` is the first cell's. A block's numbers are those of the one
        before in the row of blocks before."""
        warp = gl.arange(0, 4, _axis(0))[:, None, None]
        row = gl.arange(0, 8, _axis(1))[None, :, None]
        column = gl.arange(0, 8, _axis(2))[None, None, :]
        at = self.band + (distance + _before) + self.SIGN * (warp * 16 + row - column)
        first = gl.load(at + self.SIGN * 8)
        b_0 = gl.load(at)
        b_1 = gl.load(at - self.SIGN * 8)
        b_2 = gl.load(at - self.SIGN * 16)
        b_3 = gl.load(at - self.SIGN * 24)
        b_4 = gl.load(at - self.SIGN * 32)
        b_5 = gl.load(at - self.SIGN * 40)
        b_6 = gl.load(at - self.SIGN * 48)
        b_7 = gl.load(at - self.SIGN * 56)
        low = gl.join(gl.join(gl.join(b_0, first), gl.join(b_1, b_0)), gl.join(gl.join(b_2, b_1), gl.join(b_3, b_2)))
        high = gl.join(gl.join(gl.join(b_4, b_3), gl.join(b_5, b_4)), gl.join(gl.join(b_6, b_5), gl.join(b_7, b_6)))
        # Warp, row, column, row of blocks, bits of the block's number.
        whole = gl.permute(gl.join(low, high), (0, 3, 1, 6, 5, 4, 2))
        return gl.convert_layout(gl.reshape(whole, (64, 64)), LAYOUT, assert_trivial=True)

    @gluon.jit
    def _scattered(self, item, first, at, LAYOUT: gl.constexpr):
        """The same where distances do not follow the diagonals: all targets stand in one place."""
        row = gl.minimum(first + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT)), item.history)
        column = gl.minimum(at + gl.arange(0, 64, gl.SliceLayout(0, LAYOUT)), item.history)
        apart = self.SIGN * (row[:, None] - column[None, :])
        return gl.load(self.band + _before + gl.maximum(apart, 0))

    @gluon.jit
    def _of_positions(self, item, first, at, SEGMENTS: gl.constexpr, MASKED: gl.constexpr, LAYOUT: gl.constexpr):
        distance = self.SIGN * (first - at)
        if SEGMENTS and MASKED:
            bias = self._scattered(item, first, at, LAYOUT)
        elif SEGMENTS:
            if (first if self.SIGN == 1 else at) + 64 <= item.history:
                bias = self._diagonals(distance, LAYOUT)
            else:
                bias = self._scattered(item, first, at, LAYOUT)
        else:
            bias = self._diagonals(distance, LAYOUT)
        return bias

    @gluon.jit
    def bias(
        self,
        item,
        first,
        at,
        row_part,
        buckets: Buckets,
        SEGMENTS: gl.constexpr,
        MASKED: gl.constexpr,
        LAYOUT: gl.constexpr,
    ):
        """[64, 64]"""
        ALIGNED: gl.constexpr = not (SEGMENTS and MASKED)
        number = gl.load(self.time + buckets.first)
        bias = self._of_positions(item, first, at, SEGMENTS, MASKED, LAYOUT)
        if buckets.more > 0:
            of_time = gl.zeros([64, 64], gl.float32, LAYOUT) + number
            end = buckets.first + buckets.more + 1
            soonest, _ = self._apart(item, first, at, ALIGNED)
            # Loops of their own: of one loop with a branch the compiler makes a chain of predicates.
            if gl.load(self.least + end - 1) - soonest < _far:
                column_part = self._column_part(at, item, ALIGNED, LAYOUT)
                for bucket in range(buckets.first + 1, end):
                    following = gl.load(self.time + bucket)
                    seconds = gl.load(self.least + bucket) - soonest
                    of_time = gl.where(self._near_edge(seconds, row_part, column_part), following, of_time)
            else:
                for bucket in range(buckets.first + 1, end):
                    following = gl.load(self.time + bucket)
                    least = gl.load(self.least + bucket)
                    of_time = gl.where(self._far_edge(least, item, first, at, LAYOUT), following, of_time)
            bias += of_time
        else:
            bias += number
        return bias

    @gluon.jit
    def add_to_time(
        self,
        sums: TimeSums,
        of_score,
        item,
        first,
        at,
        row_part,
        buckets: Buckets,
        scale,
        SEGMENTS: gl.constexpr,
        MASKED: gl.constexpr,
        LAYOUT: gl.constexpr,
    ):
        """Adds the gradient of a tile's scores; memory gets the sums of a bucket when another one comes."""
        ALIGNED: gl.constexpr = not (SEGMENTS and MASKED)
        of_bucket = sums.sums
        if sums.bucket != buckets.first:
            self.put_time(sums, scale)
            of_bucket = of_bucket * 0.0
        of_tile = gl.sum(of_score, 1)
        if buckets.more > 0:
            end = buckets.first + buckets.more + 1
            soonest, _ = self._apart(item, first, at, ALIGNED)
            if gl.load(self.least + end - 1) - soonest < _far:
                column_part = self._column_part(at, item, ALIGNED, LAYOUT)
                for bucket in range(buckets.first + 1, end):
                    seconds = gl.load(self.least + bucket) - soonest
                    found = self._near_edge(seconds, row_part, column_part)
                    later = gl.sum(gl.where(found, of_score, 0.0), 1)
                    self.put_time(TimeSums(of_bucket + (of_tile - later), bucket - 1), scale)
                    of_bucket = of_bucket * 0.0
                    of_tile = later
            else:
                for bucket in range(buckets.first + 1, end):
                    found = self._far_edge(gl.load(self.least + bucket), item, first, at, LAYOUT)
                    later = gl.sum(gl.where(found, of_score, 0.0), 1)
                    self.put_time(TimeSums(of_bucket + (of_tile - later), bucket - 1), scale)
                    of_bucket = of_bucket * 0.0
                    of_tile = later
        return TimeSums(of_bucket + of_tile, buckets.first + buckets.more)

    @gluon.jit
    def put_time(self, sums: TimeSums, scale):
        of_warp = gl.sum(gl.reshape(sums.sums, (4, 16)), 1)
        place = sums.bucket + gl.arange(0, 4, of_warp.type.layout) * 0
        gl.atomic_add(self.of_time + place, of_warp * scale, sem="relaxed")
