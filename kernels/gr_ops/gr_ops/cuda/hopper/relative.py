"""The relative bias in the kernels for Hopper: position[distance] + time[bucket] of a tile's cells. The gradients of
the tables are in table_sums.py.

The position's number depends on a cell's diagonal alone, so that a thread, which has 8 x 8 blocks of a tile, needs nine
pairs of numbers in place of thirty-two. Times bound a tile's buckets (times.py): most tiles have one, whose number is
added to these pairs; the tiles at the diagonal are written down; what is left has as many comparisons as there are
further buckets. The product of queries and keys meets the bias where it is scaled, in the same instruction.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.times import AROUND, BEFORE, BLOCK, CELLS, DIAGONALS, FIRST, HEADER, bucket_of

_block = gl.constexpr(BLOCK)
_before = gl.constexpr(BEFORE)
_diagonals = gl.constexpr(DIAGONALS)
_cells = gl.constexpr(CELLS)
_header = gl.constexpr(HEADER)
_first = gl.constexpr(FIRST)
_around = gl.constexpr(AROUND)
NEAR = gl.constexpr(32767 << 16)  # Relative.bits of a tile at the diagonal
COMPARED = gl.constexpr(8)  # further buckets of a tile; with more each cell's own is looked up
# What the compiled kernel must not depend on (launch.py).
TABLES = ["band", "codes"]


@gluon.constexpr_function
def _axis(n):
    """The layout of one axis of [4 warps, 8, 4], pairs of columns of 8 x 8 as an accumulator of wgmma has them."""
    layout = gl.BlockedLayout([1, 1, 1], [1, 8, 4], [4, 1, 1], [2, 1, 0])
    for other in (2, 1, 0):
        if other != n:
            layout = gl.SliceLayout(other, layout)
    return layout


@struct
class Pairs:
    """Of a thread the pairs of neighbouring numbers of the position, int64 [4 warps, 8, 4] each: of the row of blocks
    before the first, and of eight blocks."""

    before: gl.tensor
    b_0: gl.tensor
    b_1: gl.tensor
    b_2: gl.tensor
    b_3: gl.tensor
    b_4: gl.tensor
    b_5: gl.tensor
    b_6: gl.tensor
    b_7: gl.tensor


@struct
class Code:
    """Of a tile: the number of its first bucket, that bucket, how many follow, and whether all begin soon enough for
    differences of 32 bits."""

    number: gl.tensor
    first: gl.tensor
    more: gl.tensor
    soon: gl.tensor


@struct
class Tables:
    """Those of times.py, of one sequence."""

    start: gl.tensor
    tokens: gl.tensor
    begin: gl.tensor
    length: gl.tensor

    @gluon.jit
    def cells(self):
        return self.start + _header

    @gluon.jit
    def _of_tokens(self, number):
        """One of those with a number for each token: lows, highs, times, parts; nears begin where a fifth would."""
        return self.start + (_header + _cells) + (number * self.tokens + self.begin)

    @gluon.jit
    def bucket(self, number):
        """The seconds from which on a bucket or a later one is meant, and where its number is."""
        SIZE: gl.constexpr = 4 + _diagonals * _block // 4
        return self.start + (_header + _cells) + (SIZE * self.tokens + 2 * number)

    @gluon.jit
    def number_of(self, bucket):
        return gl.load(self.bucket(bucket) + 1).to(gl.int32).to(gl.float32, bitcast=True)

    @gluon.jit
    def times(self, token):
        return gl.load(self._of_tokens(2) + gl.minimum(token, self.length - 1))

    @gluon.jit
    def after(self, token):
        """Seconds from the least time of a token's block."""
        return gl.load(self._of_tokens(3) + token).to(gl.int32)

    @gluon.jit
    def before(self, token):
        """Seconds to the greatest time of a token's block."""
        return (gl.load(self._of_tokens(3) + token) >> 32).to(gl.int32)

    @gluon.jit
    def soonest(self, query, key):
        """The least seconds from a block of keys to one of queries."""
        return gl.load(self._of_tokens(0) + query) - gl.load(self._of_tokens(1) + key)


@gluon.jit
def tables_of(row, item):
    """By a row of codes."""
    start = gl.load(row).to(gl.pointer_type(gl.int64), bitcast=True)
    return Tables(start, gl.load(start), item.begin.to(gl.int64), item.length)


@struct
class Relative:
    """The tables of times.py."""

    band: gl.tensor
    codes: gl.tensor
    blocks: gl.tensor  # of the longest sequence
    pairs: gl.tensor  # of the band
    ON: gl.constexpr
    SIGN: gl.constexpr  # 1: the rows of a tile are queries; -1: they are keys

    @gluon.jit
    def row_of(self, item, first):
        """Of a block of rows its codes."""
        block = gl.minimum(first, item.length - 1) // _block
        return self.codes + (item.sequence * self.blocks + block).to(gl.int64) * (self.blocks + _around)

    @gluon.jit
    def place(self):
        """[4 warps, 8, 4]: where the thread's pair of distance 0 is."""
        warp = gl.arange(0, 4, _axis(0))[:, None, None]
        row = gl.arange(0, 8, _axis(1))[None, :, None]
        pair = gl.arange(0, 4, _axis(2))[None, None, :]
        start = self.SIGN * (warp * 16 + row - 2 * pair)
        if self.SIGN == 1:
            start -= 1  # the second column is nearer
        odd = start & 1
        return self.band.to(gl.pointer_type(gl.int64), bitcast=True) + (
            ((start - odd + _before) >> 1) + odd * self.pairs
        )

    @gluon.jit
    def code(self, row, at):
        """Of the tile of a block of rows and 64 columns from `at` on, a multiple of 64. To be asked for a tile ahead: a
        product would have to wait for it."""
        if self.ON:
            code = gl.load(row + (at // _block + _first))
        else:
            code = at * 0
        return code

    @gluon.jit
    def read(self, code):
        bits = (code >> 32).to(gl.int32)
        return Code(code.to(gl.int32).to(gl.float32, bitcast=True), bits & 65535, (bits >> 16) & 32767, bits >= 0)

    @gluon.jit
    def bits(self, code, item, first, at):
        """Of a tile its first bucket, and from bit 16 on how many follow; NEAR at the diagonal. 0 of keys behind the
        row's end, which have no code, and nothing to add."""
        bits = gl.where((at >= first) & (at < first + _diagonals * 64), NEAR, (code >> 32).to(gl.int32))
        return gl.where(first < item.length, bits, 0)

    @gluon.jit
    def _pairs(self, place, distance):
        at = place + distance // 2
        STEP: gl.constexpr = 4 * self.SIGN
        return Pairs(
            gl.load(at + STEP),
            gl.load(at),
            gl.load(at - STEP),
            gl.load(at - 2 * STEP),
            gl.load(at - 3 * STEP),
            gl.load(at - 4 * STEP),
            gl.load(at - 5 * STEP),
            gl.load(at - 6 * STEP),
            gl.load(at - 7 * STEP),
        )

    @gluon.jit
    def _numbers(self, pair, number):
        """[4, 8, 4, 2]"""
        low = pair.to(gl.int32).to(gl.float32, bitcast=True) + number
        high = (pair >> 32).to(gl.int32).to(gl.float32, bitcast=True) + number
        if self.SIGN == 1:
            numbers = gl.join(high, low)
        else:
            numbers = gl.join(low, high)
        return numbers

    @gluon.jit
    def _tile(self, pairs: Pairs, number, LAYOUT: gl.constexpr):
        """[64, 64]: the position's numbers, and one more. A block's numbers are those of the one before in the row of
        blocks before."""
        first = self._numbers(pairs.before, number)
        b_0 = self._numbers(pairs.b_0, number)
        b_1 = self._numbers(pairs.b_1, number)
        b_2 = self._numbers(pairs.b_2, number)
        b_3 = self._numbers(pairs.b_3, number)
        b_4 = self._numbers(pairs.b_4, number)
        b_5 = self._numbers(pairs.b_5, number)
        b_6 = self._numbers(pairs.b_6, number)
        b_7 = self._numbers(pairs.b_7, number)
        low = gl.join(gl.join(gl.join(b_0, first), gl.join(b_1, b_0)), gl.join(gl.join(b_2, b_1), gl.join(b_3, b_2)))
        high = gl.join(gl.join(gl.join(b_4, b_3), gl.join(b_5, b_4)), gl.join(gl.join(b_6, b_5), gl.join(b_7, b_6)))
        # Warp, row, pair, column of the pair, row of blocks, bits of the block's number.
        whole = gl.permute(gl.join(low, high), (0, 4, 1, 7, 6, 5, 2, 3))
        return gl.convert_layout(gl.reshape(whole, (64, 64)), LAYOUT, assert_trivial=True)

    @gluon.jit
    def _scattered(self, item, first, at, LAYOUT: gl.constexpr):
        """[64, 64]: the position's numbers where distances do not follow the diagonals: all targets stand in one place,
        and contextual queries see later keys."""
        row = gl.minimum(first + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT)), item.history)
        column = gl.minimum(at + gl.arange(0, 64, gl.SliceLayout(0, LAYOUT)), item.history)
        apart = self.SIGN * (row[:, None] - column[None, :])
        return gl.load(self.band + _before + gl.maximum(apart, 0))

    @gluon.jit
    def positions(self, place, item, first, at, SEGMENTS: gl.constexpr, LAYOUT: gl.constexpr):
        """The position's numbers of a tile, for `bias`; pairs, or [64, 64] where rows have targets or contexts. To be
        asked for long before: they come from the L2 cache."""
        distance = self.SIGN * (first - at)
        if not self.ON:
            found = 0
        elif SEGMENTS:
            query = first if self.SIGN == 1 else at
            if (query + 64 <= item.history) & (distance >= -64) & (at % 64 == 0):
                found = self._tile(self._pairs(place, distance), 0.0, LAYOUT)
            else:
                found = self._scattered(item, first, at, LAYOUT)
        else:
            found = self._pairs(place, distance)
        return found

    @gluon.jit
    def early(self, place, item, first, at, SEGMENTS: gl.constexpr):
        """`positions` of the next tile, where they are pairs."""
        if SEGMENTS:
            found = 0
        else:
            found = self.positions(place, item, first, at, SEGMENTS, 0)
        return found

    @gluon.jit
    def late(self, early, place, item, first, at, SEGMENTS: gl.constexpr, LAYOUT: gl.constexpr):
        """`positions` of this tile, of which `early` may have been asked for before."""
        if SEGMENTS:
            found = self.positions(place, item, first, at, SEGMENTS, LAYOUT)
        else:
            found = early
        return found

    @gluon.jit
    def _known(self, at, ALIGNED: gl.constexpr):
        """Whether the columns from `at` on are a block, whose code is known."""
        return (at == at) if ALIGNED else (at % 64 == 0)

    @gluon.jit
    def _is_near(self, first, at):
        diagonal = self.SIGN * (first - at)
        return (diagonal >= 0) & (diagonal < 64 * _diagonals)

    @gluon.jit
    def _near(self, row, first, at, LAYOUT: gl.constexpr):
        """[64, 64]: numbers of time at the diagonal."""
        start = gl.load(row + 1).to(gl.pointer_type(gl.float16), bitcast=True)
        own = gl.arange(0, 64, gl.SliceLayout(1, LAYOUT)) * _diagonals + self.SIGN * (first - at) // 64
        numbers = start + own[:, None] * _block + gl.arange(0, 64, gl.SliceLayout(0, LAYOUT))[None, :]
        return gl.load(gl.multiple_of(numbers, [16, 4])).to(gl.float32)

    @gluon.jit
    def near_bias(self, positions, row, first, at, LAYOUT: gl.constexpr):
        """[64, 64]: half the bias of a tile that is known to be at the diagonal, where rows have no targets nor
        contexts."""
        return self._tile(positions, 0.0, LAYOUT) + self._near(row, first, at, LAYOUT)

    @gluon.jit
    def bias(self, positions, code, first, at, SEGMENTS: gl.constexpr, ALIGNED: gl.constexpr, LAYOUT: gl.constexpr):
        """[64, 64]: half the bias of 64 rows from `first` on and 64 columns from `at` on, but for what `complete` adds.
        To be made while the product runs."""
        tile = self.read(code)
        compared = (self._is_near(first, at) == 0) & (tile.more <= COMPARED) & tile.soon
        number = gl.where(self._known(at, ALIGNED) & ((tile.more == 0) | compared), tile.number, 0.0)
        if SEGMENTS:
            half = positions + number
        else:
            half = self._tile(positions, number, LAYOUT)
        return half

    @gluon.jit
    def complete(self, scaled, bias, code, row, item, first, at, ALIGNED: gl.constexpr):
        """Half the scores with their bias, of those with what `bias` gives."""
        layout: gl.constexpr = scaled.type.layout
        tile = self.read(code)
        known = self._known(at, ALIGNED)
        if known & (tile.more == 0):
            h = scaled + bias
        elif known & self._is_near(first, at):
            h = scaled + bias + self._near(row, first, at, layout)
        elif known & (tile.more <= COMPARED) & tile.soon:
            h = self._compared(scaled + bias, tile, tables_of(row, item), first, at)
        else:
            h = scaled + bias + self._looked_up(tables_of(row, item), first, at, layout)
        return h

    @gluon.jit
    def _compared(self, total, tile: Code, tables: Tables, first, at):
        """What further buckets add: cells are of them from some number of seconds behind the tile's soonest on."""
        layout: gl.constexpr = total.type.layout
        row = first + gl.arange(0, 64, gl.SliceLayout(1, layout))
        column = at + gl.arange(0, 64, gl.SliceLayout(0, layout))
        if self.SIGN == 1:
            of_row = tables.after(row)
            of_column = tables.before(column)
            soonest = tables.soonest(first, at)
        else:
            of_row = tables.before(row)
            of_column = tables.after(column)
            soonest = tables.soonest(at, first)
        number = tile.number
        for bucket in range(tile.first + 1, tile.first + tile.more + 1):
            following = tables.number_of(bucket)
            seconds = (gl.load(tables.bucket(bucket)) - soonest).to(gl.int32)
            total = gl.inline_asm_elementwise(
                "{ .reg .pred p; setp.ge.s32 p, $2, $3; mov.b32 $0, $1; @p add.f32 $0, $1, $4; }",
                "=&f,f,r,r,f",
                [
                    total,
                    of_column[None, :],
                    (seconds - of_row)[:, None],
                    gl.zeros([64, 64], gl.float32, layout) + (following - number),
                ],
                dtype=gl.float32,
                is_pure=True,
                pack=1,
            )
            number = following
        return total

    @gluon.jit
    def _looked_up(self, tables: Tables, first, at, LAYOUT: gl.constexpr):
        of_row = tables.times(first + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT)))
        of_column = tables.times(at + gl.arange(0, 64, gl.SliceLayout(0, LAYOUT)))
        seconds = self.SIGN * (of_row[:, None] - of_column[None, :])
        return tables.number_of(bucket_of(seconds, tables.cells()))
