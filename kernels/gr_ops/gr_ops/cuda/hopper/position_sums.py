"""The gradient of the position's numbers: the sums of the diagonals of the gradient of scores.

The warpgroup that multiplies the gradient of scores by the keys has it in shared memory, two 64 x 64 halves of 16 bits,
a row of 64 queries for each key. A warp turns each row by half its number, two queries at a time, so that a diagonal is
a column, of which the odd rows are one query further. What comes round the end is of the diagonals 64 earlier.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from gr_ops.cuda.hopper.relative import Relative
from gr_ops.cuda.hopper.structs import struct


@gluon.jit
def _turn(words, lane):
    """The word of another lane."""
    return gl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, $2, 0x1f, 0xffffffff;",
        "=r,r,r",
        [words, lane],
        dtype=words.dtype,
        is_pure=False,
        pack=1,
    )


@struct
class Block:
    """Sums of 64 distances, those that are even from the block's first one on and the others; [4 warps, 32] each."""

    even: gl.tensor
    odd: gl.tensor


@gluon.jit
def _sum(words):
    """[4 warps, 32, 2]: the sums over a warp's rows, of even and of odd ones."""
    return gl.permute(gl.sum(gl.reshape(words, (4, 8, 2, 32)), 1), (0, 2, 1))


@gluon.jit
def _half(ds):
    """The diagonals of 64 keys and 64 queries: those of the same query or a later one from the first key on, and the
    ones 64 earlier. For even rows and odd ones, whose distances are one less, the words' lower and upper number."""
    layout: gl.constexpr = gl.BlockedLayout([16, 1], [1, 32], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 32], gl.int32)
    words = ds._reinterpret(gl.int32, [64, 32], shared).load(layout)
    turn = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None] >> 1
    place = gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :] + turn
    words = _turn(words, place & 31)
    if ds.dtype == gl.bfloat16:
        low = (words << 16).to(gl.float32, bitcast=True)
        high = (words & -65536).to(gl.float32, bitcast=True)
    else:
        low = (words & 65535).to(gl.int16).to(gl.float16, bitcast=True).to(gl.float32)
        high = (words >> 16).to(gl.int16).to(gl.float16, bitcast=True).to(gl.float32)
    near = place < 32
    low_near = _sum(gl.where(near, low, 0.0))
    high_near = _sum(gl.where(near, high, 0.0))
    low_far = _sum(gl.where(near, 0.0, low))
    high_far = _sum(gl.where(near, 0.0, high))
    return low_near, high_near, low_far, high_far


@gluon.jit
def _block(low, high):
    """Of words' sums [4, 32, 2]: a block, and in the last lane the sum of the distance before it."""
    low_even, low_odd = gl.split(low)
    high_even, high_odd = gl.split(high)
    lane = gl.arange(0, 32, gl.SliceLayout(0, low_odd.type.layout))[None, :] + gl.zeros_like(low_odd).to(gl.int32)
    turned = _turn(low_odd, (lane + 1) & 31)
    inside = lane < 31
    return Block(low_even + high_odd, high_even + gl.where(inside, turned, 0.0)), gl.where(inside, 0.0, turned)


@gluon.jit
def _put(relative: Relative, block: Block, distance, scale):
    layout: gl.constexpr = block.even.type.layout
    warp = gl.arange(0, 4, gl.SliceLayout(1, layout))[:, None]
    place = distance + 2 * gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :] + 0 * warp
    out = relative.of_position + place
    gl.atomic_add(out, block.even * scale, mask=(place >= 0) & (place < relative.distances), sem="relaxed")
    gl.atomic_add(out + 1, block.odd * scale, mask=(place >= -1) & (place + 1 < relative.distances), sem="relaxed")


@gluon.jit
def diagonals(first_half, second_half, relative: Relative, distance, scale):
    """Of a tile whose first query is `distance` behind its first key: three blocks, from there, 64 and 128 earlier."""
    low_0, high_0, low_1, high_1 = _half(first_half)
    near, of_middle = _block(low_0, high_0)
    _put(relative, near, distance, scale)
    low_0, high_0, low_2, high_2 = _half(second_half)
    middle, of_far = _block(low_1 + low_0, high_1 + high_0)
    _put(relative, Block(middle.even, middle.odd + of_middle), distance - 64, scale)
    far, _ = _block(low_2, high_2)
    _put(relative, Block(far.even, far.odd + of_far), distance - 128, scale)


@gluon.jit
def scattered(ds, relative: Relative, item, first, at, scale):
    """Of 64 keys from `first` on and 64 queries from `at` on, where distances do not follow the diagonals: all targets
    stand in one place, and contextual queries see later keys."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    values = ds.load(layout).to(gl.float32) * scale
    key = gl.minimum(first + gl.arange(0, 64, gl.SliceLayout(1, layout)), item.history)
    if (at >= item.history) & (first + 64 <= item.history):
        gl.atomic_add(relative.of_position + (item.history - key), gl.sum(values, 1), sem="relaxed")
    else:
        query = gl.minimum(at + gl.arange(0, 64, gl.SliceLayout(0, layout)), item.history)
        apart = query[None, :] - key[:, None]
        gl.atomic_add(relative.of_position + apart, values, mask=(apart > 0) & (values != 0.0), sem="relaxed")
        at_0 = gl.sum(gl.sum(gl.where(apart > 0, 0.0, values), 1), 0)
        gl.atomic_add(relative.of_position, at_0, sem="relaxed")


@gluon.jit
def add_positions(halves, relative: Relative, item, first, at, masked, scale, SEGMENTS: gl.constexpr):
    """Of the keys from `first` on and the queries from `at` on."""
    if SEGMENTS:
        if masked | (at + 64 > item.history):
            scattered(halves[0], relative, item, first, at, scale)
            scattered(halves[1], relative, item, first + 64, at, scale)
        else:
            diagonals(halves[0], halves[1], relative, at - first, scale)
    else:
        diagonals(halves[0], halves[1], relative, at - first, scale)
