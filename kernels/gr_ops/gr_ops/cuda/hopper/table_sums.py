"""The gradients of the tables of the relative bias: sums of the gradient of scores, by diagonals for the position's
numbers and by buckets for those of time.

The warpgroup that multiplies the gradient of scores by the keys has it in shared memory, 16 bits, a row of 64 queries
for each of 128 keys. A warp takes 32 keys, four times eight blocks of 8 x 8, and adds blocks of one diagonal up: the
tensor cores do it, four blocks an instruction, by a product with the identity. Of the eleven diagonals the last three
go on in the next tile's first ones: they stay in registers. Eight are done, and are added to memory as blocks, which
diagonals.py takes apart.

What the blocks add up to is the gradient of the tile's bucket, where it has one. Tiles at the diagonal, which have
many, are written to memory, for near_sums.py.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from gr_ops.cuda.hopper.diagonals import BEFORE, NUMBERS
from gr_ops.cuda.hopper.relative import NEAR, Relative, Tables, tables_of
from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.times import BLOCK, DIAGONALS, bucket_of

_block_size = gl.constexpr(BLOCK)
_diagonals = gl.constexpr(DIAGONALS)
_before = gl.constexpr(BEFORE)
_numbers_of_pair = gl.constexpr(NUMBERS)
# What the compiled kernel must not depend on (launch.py).
SUMS = ["of_position", "of_blocks", "of_time", "of_near"]
_words = gl.constexpr(gl.BlockedLayout([16, 1], [1, 32], [4, 1], [1, 0]))  # [64, 32], 16 rows a warp
# [128, 64], 32 rows a warp: its 8 x 8 blocks as operands and accumulators of mma have them
_tile = gl.constexpr(
    gl.DistributedLinearLayout(
        [[0, 1], [8, 0], [16, 0], [0, 8], [0, 16], [0, 32]],
        [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
        [[32, 0], [64, 0]],
        [],
        [128, 64],
    )
)
_block = gl.constexpr(gl.BlockedLayout([1, 1, 2], [1, 8, 4], [4, 1, 1], [2, 1, 0]))  # [4 warps, 8, 8], one block


@struct
class Sums:
    """Where the gradients go."""

    of_position: gl.tensor  # of tiles whose distances do not follow the diagonals
    of_blocks: gl.tensor  # diagonals.py
    of_time: gl.tensor
    of_near: gl.tensor  # [heads, tokens, DIAGONALS, BLOCK]
    tokens: gl.tensor


@struct
class Running:
    """Sums that the next tile adds to: blocks of its first three diagonals, and of a bucket for each half, that of two
    warps, [4 warps, 8, 8] each. `distance` is the first one's of the tile that follows."""

    block_0: gl.tensor
    block_1: gl.tensor
    block_2: gl.tensor
    distance: gl.tensor
    time: gl.tensor
    bucket_0: gl.tensor
    bucket_1: gl.tensor


@struct
class Diagonals:
    """Blocks of the eight diagonals of a tile that are done, of the three that are not, and what it adds to time."""

    d_0: gl.tensor
    d_1: gl.tensor
    d_2: gl.tensor
    d_3: gl.tensor
    d_4: gl.tensor
    d_5: gl.tensor
    d_6: gl.tensor
    d_7: gl.tensor
    next_0: gl.tensor
    next_1: gl.tensor
    next_2: gl.tensor
    total: gl.tensor


@gluon.jit
def _zero():
    return gl.zeros([4, 8, 8], gl.float32, _block)


@gluon.jit
def nothing_yet():
    return Running(_zero(), _zero(), _zero(), gl.to_tensor(-1), _zero(), gl.to_tensor(0), gl.to_tensor(0))


@gluon.jit
def _warp():
    return gl.arange(0, 4, gl.SliceLayout(1, gl.SliceLayout(2, _block)))[:, None, None]


@gluon.jit
def _row():
    return gl.arange(0, 8, gl.SliceLayout(0, gl.SliceLayout(2, _block)))[None, :, None]


@gluon.jit
def _column():
    return gl.arange(0, 8, gl.SliceLayout(0, gl.SliceLayout(1, _block)))[None, None, :]


@gluon.jit
def _eight(x):
    """Of a row of blocks, [4, 8, 8, 2, 2, 2]."""
    even, odd = gl.split(x)
    b_04, b_26 = gl.split(even)
    b_15, b_37 = gl.split(odd)
    b_0, b_4 = gl.split(b_04)
    b_2, b_6 = gl.split(b_26)
    b_1, b_5 = gl.split(b_15)
    b_3, b_7 = gl.split(b_37)
    return (
        gl.convert_layout(b_0, _block, assert_trivial=True),
        gl.convert_layout(b_1, _block, assert_trivial=True),
        gl.convert_layout(b_2, _block, assert_trivial=True),
        gl.convert_layout(b_3, _block, assert_trivial=True),
        gl.convert_layout(b_4, _block, assert_trivial=True),
        gl.convert_layout(b_5, _block, assert_trivial=True),
        gl.convert_layout(b_6, _block, assert_trivial=True),
        gl.convert_layout(b_7, _block, assert_trivial=True),
    )


@gluon.jit
def _add(upper, lower, identity, upper_a, upper_b, lower_a, lower_b):
    """Adds two blocks each to two."""
    KIND: gl.constexpr = "bf16" if upper_a.dtype == gl.bfloat16 else "f16"
    return gl.inline_asm_elementwise(
        "mma.sync.aligned.m16n8k16.row.col.f32."
        + KIND
        + "."
        + KIND
        + ".f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $8}, {$9, $10, $11, $12};",
        "=f,=f,=f,=f,r,r,r,r,r,f,f,f,f",
        [upper_a, lower_a, upper_b, lower_b, identity, upper, lower],
        dtype=(gl.float32, gl.float32),
        is_pure=True,
        pack=2,
    )


@gluon.jit
def _added(ds, block_0, block_1, block_2):
    """Diagonals of a tile, of which three have been begun."""
    zero = _zero()
    none = zero.to(ds.dtype)
    identity = gl.where(_row() == _column() + 0 * _warp(), 1.0, 0.0).to(ds.dtype)
    x = gl.reshape(ds.load(_tile), (4, 2, 2, 8, 2, 2, 2, 8))
    even, odd = gl.split(gl.permute(x, (0, 3, 7, 4, 5, 6, 1, 2)))
    row_0, row_2 = gl.split(even)
    row_1, row_3 = gl.split(odd)
    a_0, a_1, a_2, a_3, a_4, a_5, a_6, a_7 = _eight(row_0)
    b_0, b_1, b_2, b_3, b_4, b_5, b_6, b_7 = _eight(row_1)
    c_0, c_1, c_2, c_3, c_4, c_5, c_6, c_7 = _eight(row_2)
    d_0, d_1, d_2, d_3, d_4, d_5, d_6, d_7 = _eight(row_3)
    done_0, done_1 = _add(block_0, block_1, identity, d_0, none, c_0, d_1)
    done_2, done_3 = _add(block_2, zero, identity, b_0, c_1, a_0, b_1)
    done_2, done_3 = _add(done_2, done_3, identity, d_2, none, c_2, d_3)
    done_4, done_5 = _add(zero, zero, identity, a_1, b_2, a_2, b_3)
    done_4, done_5 = _add(done_4, done_5, identity, c_3, d_4, c_4, d_5)
    done_6, done_7 = _add(zero, zero, identity, a_3, b_4, a_4, b_5)
    done_6, done_7 = _add(done_6, done_7, identity, c_5, d_6, c_6, d_7)
    next_0, next_1 = _add(zero, zero, identity, a_5, b_6, a_6, b_7)
    next_0, next_2 = _add(next_0, zero, identity, c_7, none, a_7, none)
    total = ((done_0 + done_1) + (done_2 + done_3)) + ((done_4 + done_5) + (done_6 + done_7))
    total += ((next_0 - block_0) + (next_1 - block_1)) + (next_2 - block_2)
    return Diagonals(done_0, done_1, done_2, done_3, done_4, done_5, done_6, done_7, next_0, next_1, next_2, total)


@gluon.jit
def _place(sums: Sums, distance):
    """Where the first two diagonals of a tile are."""
    pair = distance // 16 + (_before - 2 * _warp())
    place = pair * _numbers_of_pair + (_row() * 16 + (_column() >> 1) * 4)
    return (sums.of_blocks + place).to(gl.int64)


@gluon.jit
def _put(address, upper, lower):
    gl.inline_asm_elementwise(
        "red.relaxed.gpu.global.add.v4.f32 [$2], {$4, $5, $6, $7}; mov.b32 $0, 0; mov.b32 $1, 0;",
        "=r,=r,l,l,f,f,f,f",
        [address, upper, lower],
        dtype=gl.int32,
        is_pure=False,
        pack=2,
    )


@gluon.jit
def _put_time(sums: Sums, of_warp, bucket, scale):
    """`of_warp` [4]."""
    gl.atomic_add(sums.of_time + (bucket + gl.arange(0, 4, of_warp.type.layout) * 0), of_warp * scale, sem="relaxed")


@gluon.jit
def _of_half(of_thread, half: gl.constexpr):
    return gl.where(_warp() // 2 == half + 0 * (_row() + _column()), of_thread, 0.0)


@gluon.jit
def _put_half(sums: Sums, of_thread, half: gl.constexpr, bucket, scale):
    _put_time(sums, gl.sum(gl.sum(_of_half(of_thread, half), 2), 1), bucket, scale)


@gluon.jit
def put_diagonals(sums: Sums, running: Running):
    """What no other tile adds to."""
    address = _place(sums, running.distance)
    _put(address, running.block_0, running.block_1)
    _put(address + 4 * _numbers_of_pair, running.block_2, _zero())


@gluon.jit
def put_all(sums: Sums, running: Running, scale):
    if running.distance >= 0:
        put_diagonals(sums, running)
    _put_half(sums, running.time, 0, running.bucket_0, scale)
    _put_half(sums, running.time, 1, running.bucket_1, scale)


@gluon.jit
def _load(ds):
    """Two numbers a word, [64, 32]."""
    shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 32], gl.int32)
    return ds._reinterpret(gl.int32, [64, 32], shared).load(_words)


@gluon.jit
def _numbers(words, kind: gl.constexpr):
    """The lower and the upper one."""
    if kind == gl.bfloat16:
        low = (words << 16).to(gl.float32, bitcast=True)
        high = (words & -65536).to(gl.float32, bitcast=True)
    else:
        low = (words & 65535).to(gl.int16).to(gl.float16, bitcast=True).to(gl.float32)
        high = (words >> 16).to(gl.int16).to(gl.float16, bitcast=True).to(gl.float32)
    return low, high


@gluon.jit
def _over_rows(x):
    """[4 warps, 32]: the sums over a warp's rows of [64, 32]."""
    return gl.sum(gl.reshape(x, (4, 16, 32)), 1)


@gluon.jit
def _scattered(ds, sums: Sums, item, first, at, scale):
    """Of 64 keys from `first` on and 64 queries from `at` on, where distances do not follow the diagonals: all targets
    stand in one place, and contextual queries see later keys."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    values = ds.load(layout).to(gl.float32) * scale
    key = gl.minimum(first + gl.arange(0, 64, gl.SliceLayout(1, layout)), item.history)
    if gl.minimum(at + 63, item.history) <= gl.minimum(first, item.history):
        gl.atomic_add(sums.of_position, gl.sum(gl.sum(values, 1), 0), sem="relaxed")
    elif (at >= item.history) & (first + 64 <= item.history):
        gl.atomic_add(sums.of_position + (item.history - key), gl.sum(values, 1), sem="relaxed")
    else:
        query = gl.minimum(at + gl.arange(0, 64, gl.SliceLayout(0, layout)), item.history)
        apart = query[None, :] - key[:, None]
        gl.atomic_add(sums.of_position + apart, values, mask=(apart > 0) & (values != 0.0), sem="relaxed")
        at_0 = gl.sum(gl.sum(gl.where(apart > 0, 0.0, values), 1), 0)
        gl.atomic_add(sums.of_position, at_0, sem="relaxed")


@gluon.jit
def _write_down(ds, sums: Sums, item, first, diagonal):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    key = first + gl.arange(0, 64, gl.SliceLayout(1, layout))
    row = item.head.to(gl.int64) * sums.tokens + (item.begin + key)
    place = (row * _diagonals + diagonal)[:, None] * _block_size + gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    gl.store(gl.multiple_of(sums.of_near + place, [16, 16]), ds.load(layout), mask=(key < item.length)[:, None])


@gluon.jit
def _compared(ds, sums: Sums, tables: Tables, first, at, tile, scale):
    """Puts away the sums of all buckets of a tile."""
    low, high = _numbers(_load(ds), ds.dtype)
    of_key = tables.before(first + gl.arange(0, 64, gl.SliceLayout(1, _words)))
    query = at + 2 * gl.arange(0, 32, gl.SliceLayout(0, _words))
    of_query_0 = tables.after(query)
    of_query_1 = tables.after(query + 1)
    soonest = tables.soonest(at, first)
    left = _over_rows(low) + _over_rows(high)
    for bucket in range(tile.first + 1, tile.first + tile.more + 1):
        least = ((gl.load(tables.bucket(bucket)) - soonest).to(gl.int32) - of_key)[:, None]
        later = _over_rows(gl.where(of_query_0[None, :] >= least, low, 0.0))
        later += _over_rows(gl.where(of_query_1[None, :] >= least, high, 0.0))
        _put_time(sums, gl.sum(left - later, 1), bucket - 1, scale)
        left = later
    _put_time(sums, gl.sum(left, 1), tile.first + tile.more, scale)


@gluon.jit
def _looked_up(ds, sums: Sums, tables: Tables, first, at, scale):
    """Each cell by itself: times of a tile are further apart than 32 bits hold."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    of_query = tables.times(at + gl.arange(0, 64, gl.SliceLayout(0, layout)))
    for part in gl.static_range(4):
        values = ds.slice(part * 16, 16, 0).load(layout).to(gl.float32) * scale
        of_key = tables.times(first + part * 16 + gl.arange(0, 16, gl.SliceLayout(1, layout)))
        bucket = bucket_of(of_query[None, :] - of_key[:, None], tables.cells())
        gl.atomic_add(sums.of_time + bucket, values, mask=values != 0.0, sem="relaxed")


@gluon.jit
def _add_time(
    ds, total, sums: Sums, relative: Relative, item, first, at, bits, time, bucket, scale, half: gl.constexpr
):
    """Of a half: the running sum of its bucket, and the bucket."""
    tile = relative.read(bits.to(gl.int64) << 32)
    if bits == NEAR:
        if first < item.length:
            _write_down(ds, sums, item, first, (at - first) // 64)
    elif tile.more == 0:
        if bucket != tile.first:
            _put_half(sums, time, half, bucket, scale)
            time -= _of_half(time, half)
            bucket = tile.first
        time += _of_half(total, half)
    elif tile.soon:
        _compared(ds, sums, tables_of(relative.row_of(item, first), item), first, at, tile, scale)
    else:
        _looked_up(ds, sums, tables_of(relative.row_of(item, first), item), first, at, scale)
    return time, bucket


@gluon.jit
def _by_diagonals(ds, sums: Sums, running: Running, distance):
    block_0 = running.block_0
    block_1 = running.block_1
    block_2 = running.block_2
    if distance != running.distance:
        if running.distance >= 0:
            put_diagonals(sums, running)
        block_0 = _zero()
        block_1 = _zero()
        block_2 = _zero()
    tile = _added(ds, block_0, block_1, block_2)
    address = _place(sums, distance)
    _put(address, tile.d_0, tile.d_1)
    _put(address + 4 * _numbers_of_pair, tile.d_2, tile.d_3)
    _put(address + 8 * _numbers_of_pair, tile.d_4, tile.d_5)
    _put(address + 12 * _numbers_of_pair, tile.d_6, tile.d_7)
    return tile.next_0, tile.next_1, tile.next_2, distance + 64, tile.total


@gluon.jit
def _one_by_one(ds, half_0, half_1, sums: Sums, running: Running, item, first, at, scale):
    _scattered(half_0, sums, item, first, at, scale)
    _scattered(half_1, sums, item, first + 64, at, scale)
    tile = _added(ds, _zero(), _zero(), _zero())
    return running.block_0, running.block_1, running.block_2, running.distance, tile.total


@gluon.jit
def add_tile(
    ds,
    half_0,
    half_1,
    sums: Sums,
    relative: Relative,
    running: Running,
    item,
    first,
    at,
    bits_0,
    bits_1,
    scale,
    SEGMENTS: gl.constexpr,
):
    """Of the keys from `first` on and the queries from `at` on. `ds` has both halves of the keys, whose buckets are
    `bits_0` and `bits_1` (Relative.bits)."""
    if SEGMENTS:
        if (at + 64 <= item.history) & (at >= item.context) & (at >= first):
            b_0, b_1, b_2, distance, total = _by_diagonals(ds, sums, running, at - first)
        else:
            b_0, b_1, b_2, distance, total = _one_by_one(ds, half_0, half_1, sums, running, item, first, at, scale)
    else:
        b_0, b_1, b_2, distance, total = _by_diagonals(ds, sums, running, at - first)
    time = running.time
    bucket_0 = running.bucket_0
    bucket_1 = running.bucket_1
    if (bits_0 == bucket_0) & (bits_1 == bucket_1):
        time += total
    else:
        time, bucket_0 = _add_time(half_0, total, sums, relative, item, first, at, bits_0, time, bucket_0, scale, 0)
        time, bucket_1 = _add_time(
            half_1, total, sums, relative, item, first + 64, at, bits_1, time, bucket_1, scale, 1
        )
    return Running(b_0, b_1, b_2, distance, time, bucket_0, bucket_1)
