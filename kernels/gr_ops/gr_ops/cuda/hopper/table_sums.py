"""The gradients of the tables of the relative bias: sums of the gradient of scores, by diagonals for the position's
numbers and by buckets for those of time.

The warpgroup that multiplies the gradient of scores by the keys has it in shared memory, two 64 x 64 halves of 16 bits,
a row of 64 queries for each key. A warp turns each row by half its number, two queries at a time, so that a diagonal is
a column, of which the odd rows are one query further. What comes round the end is of the diagonals 64 earlier. The next
tile has two thirds of a tile's diagonals: they stay in registers until no tile adds to them.

What the diagonals add up to is the gradient of the tile's bucket, where it has one. Tiles at the diagonal, which have
many, are written to memory, for near_sums.py.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from gr_ops.cuda.hopper.relative import Relative, Tables, tables_of
from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.times import BLOCK, DIAGONALS, bucket_of

_block_size = gl.constexpr(BLOCK)
_diagonals = gl.constexpr(DIAGONALS)
# What the compiled kernel must not depend on (launch.py).
SUMS = ["of_position", "of_time", "of_near"]
_words = gl.constexpr(gl.BlockedLayout([16, 1], [1, 32], [4, 1], [1, 0]))  # [64, 32], 16 rows a warp


@struct
class Sums:
    """Where the gradients go."""

    of_position: gl.tensor
    of_time: gl.tensor
    of_near: gl.tensor  # [heads, tokens, DIAGONALS, BLOCK]
    distances: gl.tensor  # of the position's numbers
    tokens: gl.tensor


@struct
class Block:
    """Sums of 64 distances, those that are even from the block's first one on and the others; [4 warps, 32] each."""

    even: gl.tensor
    odd: gl.tensor


@struct
class Running:
    """Sums that the next tile adds to: of the 64 diagonals before its first one, of the 64 before those, and of a
    bucket for each half. `distance` is the first one's of the tile that follows."""

    middle: Block
    far: Block
    distance: gl.tensor
    time_0: gl.tensor
    bucket_0: gl.tensor
    time_1: gl.tensor
    bucket_1: gl.tensor


@gluon.jit
def _over_even_and_odd(x):
    """[4 warps, 32]: the sums over a warp's rows of [64, 32], the even ones and the odd ones."""
    return gl.split(gl.permute(gl.sum(gl.reshape(x, (4, 8, 2, 32)), 1), (0, 2, 1)))


@gluon.jit
def _over_rows(x):
    even, odd = _over_even_and_odd(x)
    return even + odd


@gluon.jit
def _zero():
    return _over_rows(gl.zeros([64, 32], gl.float32, _words))


@gluon.jit
def nothing_yet():
    return Running(
        Block(_zero(), _zero()),
        Block(_zero(), _zero()),
        gl.to_tensor(-1),
        _zero(),
        gl.to_tensor(0),
        _zero(),
        gl.to_tensor(0),
    )


@gluon.jit
def _turn(words, lane):
    """The word of another lane, modulo 32."""
    return gl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, $2, 0x1f, 0xffffffff;",
        "=r,r,r",
        [words, lane],
        dtype=words.dtype,
        is_pure=False,
        pack=1,
    )


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


@struct
class Half:
    """The diagonals of 64 keys and 64 queries: those of the same query or a later one from the first key on, and the
    ones 64 earlier. For even rows and odd ones, whose distances are one less, the words' lower and upper number."""

    low_even: gl.tensor
    low_odd: gl.tensor
    high_even: gl.tensor
    high_odd: gl.tensor
    earlier_low_even: gl.tensor
    earlier_low_odd: gl.tensor
    earlier_high_even: gl.tensor
    earlier_high_odd: gl.tensor
    total: gl.tensor  # of a thread


@gluon.jit
def _half(ds):
    words = _load(ds)
    turn = gl.arange(0, 64, gl.SliceLayout(1, _words))[:, None] >> 1
    place = gl.arange(0, 32, gl.SliceLayout(0, _words))[None, :] + turn
    low, high = _numbers(_turn(words, place), ds.dtype)
    near = place < 32
    low_even, low_odd = _over_even_and_odd(gl.where(near, low, 0.0))
    high_even, high_odd = _over_even_and_odd(gl.where(near, high, 0.0))
    all_low_even, all_low_odd = _over_even_and_odd(low)
    all_high_even, all_high_odd = _over_even_and_odd(high)
    return Half(
        low_even,
        low_odd,
        high_even,
        high_odd,
        all_low_even - low_even,
        all_low_odd - low_odd,
        all_high_even - high_even,
        all_high_odd - high_odd,
        (all_low_even + all_low_odd) + (all_high_even + all_high_odd),
    )


@gluon.jit
def _block(low_even, low_odd, high_even, high_odd):
    """A block, and in the last lane the sum of the distance before it."""
    lane = gl.arange(0, 32, gl.SliceLayout(0, low_odd.type.layout))[None, :] + gl.zeros_like(low_odd).to(gl.int32)
    turned = _turn(low_odd, lane + 1)
    inside = lane < 31
    return Block(low_even + high_odd, high_even + gl.where(inside, turned, 0.0)), gl.where(inside, 0.0, turned)


@gluon.jit
def _put(sums: Sums, block: Block, distance, scale):
    layout: gl.constexpr = block.even.type.layout
    warp = gl.arange(0, 4, gl.SliceLayout(1, layout))[:, None]
    place = distance + 2 * gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :] + 0 * warp
    out = sums.of_position + place
    gl.atomic_add(out, block.even * scale, mask=(place >= 0) & (place < sums.distances), sem="relaxed")
    gl.atomic_add(out + 1, block.odd * scale, mask=(place >= -1) & (place + 1 < sums.distances), sem="relaxed")


@gluon.jit
def _put_time(sums: Sums, of_thread, bucket, scale):
    of_warp = gl.sum(of_thread, 1)
    gl.atomic_add(sums.of_time + (bucket + gl.arange(0, 4, of_warp.type.layout) * 0), of_warp * scale, sem="relaxed")


@gluon.jit
def put_diagonals(sums: Sums, running: Running, scale):
    """What no other tile adds to."""
    _put(sums, running.far, running.distance - 128, scale)
    _put(sums, running.middle, running.distance - 64, scale)


@gluon.jit
def put_all(sums: Sums, running: Running, scale):
    put_diagonals(sums, running, scale)
    _put_time(sums, running.time_0, running.bucket_0, scale)
    _put_time(sums, running.time_1, running.bucket_1, scale)


@gluon.jit
def _total(ds):
    low, high = _numbers(_load(ds), ds.dtype)
    return _over_rows(low) + _over_rows(high)


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
def _compared(ds, sums: Sums, tables: Tables, first, at, tile, running, scale):
    """Puts away the sums of all buckets of a tile but the last; returns what is left."""
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
        _put_time(sums, running + (left - later), bucket - 1, scale)
        running = _zero()
        left = later
    return running + left


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
def _add_time(ds, total, sums: Sums, relative: Relative, row, item, first, at, code, time, bucket, scale):
    """Of a half: the running sum of its bucket, and the bucket. Behind the row's end there is nothing to add, and no
    code of the tile."""
    tile = relative.read(code)
    if (at >= first) & (at < first + _diagonals * 64):
        _write_down(ds, sums, item, first, (at - first) // 64)
    elif first < item.length:
        if bucket != tile.first:
            _put_time(sums, time, bucket, scale)
            time = _zero()
            bucket = tile.first
        if tile.more == 0:
            time += total
        elif tile.soon:
            time = _compared(ds, sums, tables_of(row, item), first, at, tile, time, scale)
            bucket = tile.first + tile.more
        else:
            _looked_up(ds, sums, tables_of(row, item), first, at, scale)
    return time, bucket


@struct
class Diagonals:
    """Sums of a tile: the running ones behind it, and what the diagonals of each half add up to."""

    middle: Block
    far: Block
    distance: gl.tensor
    total_0: gl.tensor
    total_1: gl.tensor


@gluon.jit
def _by_diagonals(half_0, half_1, sums: Sums, running: Running, distance, scale):
    middle = running.middle
    far = running.far
    if distance != running.distance:
        put_diagonals(sums, running, scale)
        middle = Block(_zero(), _zero())
        far = Block(_zero(), _zero())
    h_0 = _half(half_0)
    near, of_middle = _block(h_0.low_even, h_0.low_odd, h_0.high_even, h_0.high_odd)
    h_1 = _half(half_1)
    next_middle, of_far = _block(
        h_0.earlier_low_even + h_1.low_even,
        h_0.earlier_low_odd + h_1.low_odd,
        h_0.earlier_high_even + h_1.high_even,
        h_0.earlier_high_odd + h_1.high_odd,
    )
    last, _ = _block(h_1.earlier_low_even, h_1.earlier_low_odd, h_1.earlier_high_even, h_1.earlier_high_odd)
    _put(sums, Block(far.even + last.even, far.odd + (last.odd + of_far)), distance - 128, scale)
    far = Block(middle.even + next_middle.even, middle.odd + (next_middle.odd + of_middle))
    return Diagonals(near, far, distance + 64, h_0.total, h_1.total)


@gluon.jit
def _one_by_one(half_0, half_1, sums: Sums, running: Running, item, first, at, scale):
    _scattered(half_0, sums, item, first, at, scale)
    _scattered(half_1, sums, item, first + 64, at, scale)
    return Diagonals(running.middle, running.far, running.distance, _total(half_0), _total(half_1))


@gluon.jit
def add_tile(
    half_0,
    half_1,
    sums: Sums,
    relative: Relative,
    running: Running,
    item,
    first,
    at,
    row,
    code_0,
    code_1,
    scale,
    SEGMENTS: gl.constexpr,
):
    """Of the keys from `first` on and the queries from `at` on."""
    if SEGMENTS:
        if (at + 64 <= item.history) & (at >= item.context) & (at >= first):
            tile = _by_diagonals(half_0, half_1, sums, running, at - first, scale)
        else:
            tile = _one_by_one(half_0, half_1, sums, running, item, first, at, scale)
    else:
        tile = _by_diagonals(half_0, half_1, sums, running, at - first, scale)
    time_0, bucket_0 = _add_time(
        half_0, tile.total_0, sums, relative, row, item, first, at, code_0, running.time_0, running.bucket_0, scale
    )
    time_1, bucket_1 = _add_time(
        half_1, tile.total_1, sums, relative, row, item, first + 64, at, code_1, running.time_1, running.bucket_1, scale
    )
    return Running(tile.middle, tile.far, tile.distance, time_0, bucket_0, time_1, bucket_1)
