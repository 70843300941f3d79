"""What tiles add to the gradients of the relative bias's tables that have more than one bucket, or whose distances do
not follow the diagonals; table_sums.py has all others.

The warpgroup that multiplies the gradient of scores by the keys does it, after that. Tiles at the diagonal, which have
many buckets, are written to memory, for near_sums.py.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from gr_ops.cuda.hopper.relative import NEAR, Relative, Tables, tables_of
from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.times import BLOCK, DIAGONALS, bucket_of

_block_size = gl.constexpr(BLOCK)
_diagonals = gl.constexpr(DIAGONALS)
_words = gl.constexpr(gl.BlockedLayout([16, 1], [1, 32], [4, 1], [1, 0]))  # [64, 32], 16 rows a warp
# What the compiled kernel must not depend on (launch.py).
SUMS = ["of_position", "of_blocks", "of_time", "of_near"]


@struct
class Sums:
    """Where the gradients go."""

    of_position: gl.tensor  # of tiles whose distances do not follow the diagonals
    of_blocks: gl.tensor  # diagonals.py
    of_time: gl.tensor
    of_near: gl.tensor  # [heads, tokens, DIAGONALS, BLOCK]
    tokens: gl.tensor


@gluon.jit
def of_one_bucket(bits):
    """Of Relative.bits: whether a tile has no further bucket, and is not at the diagonal."""
    return (bits & -65536) == 0


@gluon.jit
def follows_diagonals(item, first, at, SEGMENTS: gl.constexpr):
    """Whether the distances of keys from `first` on and queries from `at` on do: targets all stand in one place, and
    contextual queries see later keys."""
    if SEGMENTS:
        follows = (at + 64 <= item.history) & (at >= item.context) & (at >= first)
    else:
        follows = at >= 0
    return follows


@gluon.jit
def _put_time(sums: Sums, of_warp, bucket, scale):
    """`of_warp` [4]."""
    gl.atomic_add(sums.of_time + (bucket + gl.arange(0, 4, of_warp.type.layout) * 0), of_warp * scale, sem="relaxed")


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
def _add_time(ds, sums: Sums, relative: Relative, item, first, at, bits, scale):
    tile = relative.read(bits.to(gl.int64) << 32)
    if bits == NEAR:
        if first < item.length:
            _write_down(ds, sums, item, first, (at - first) // 64)
    elif tile.more > 0:
        tables = tables_of(relative.row_of(item, first), item)
        if tile.soon:
            _compared(ds, sums, tables, first, at, tile, scale)
        else:
            _looked_up(ds, sums, tables, first, at, scale)


@gluon.jit
def add_uneven(
    half_0, half_1, sums: Sums, relative: Relative, item, first, at, bits_0, bits_1, follows, scale, SEGMENTS: gl.constexpr
):
    """Of the keys from `first` on, 64 in each half, whose buckets are `bits_0` and `bits_1`, and the queries from `at`
    on."""
    if SEGMENTS:  # noqa: SIM102 (the compiler knows this one)
        if follows == 0:
            _scattered(half_0, sums, item, first, at, scale)
            _scattered(half_1, sums, item, first + 64, at, scale)
    _add_time(half_0, sums, relative, item, first, at, bits_0, scale)
    _add_time(half_1, sums, relative, item, first + 64, at, bits_1, scale)
