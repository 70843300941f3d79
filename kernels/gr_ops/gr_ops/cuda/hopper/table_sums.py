"""The gradients of the tables of the relative bias: sums of the gradient of scores, by diagonals for the position's
numbers and by buckets for those of time.

Two warps of their own have it in shared memory, 16 bits, a row of 64 queries for each of 128 keys. A warp takes 64 keys,
eight times eight blocks of 8 x 8, and adds blocks of one diagonal up: the tensor cores do it, four blocks an
instruction, by a product with the identity. It goes through the quarters of 4 x 4 blocks in an order in which few of the
fifteen diagonals are open at a time. A diagonal that is done is added to memory as a block, which diagonals.py takes
apart. What all blocks add up to is the gradient of the tile's bucket, where it has one.

Nothing is kept from one tile to the next, and all that is rare is in uneven_tiles.py, for another partition: these warps
have few registers, and what is spilled comes from the L2 cache.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from gr_ops.cuda.hopper.diagonals import BEFORE, NUMBERS
from gr_ops.cuda.hopper.gradient_memory import END, Shared
from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.uneven_tiles import Sums, of_one_bucket

_before = gl.constexpr(BEFORE)
_numbers_of_pair = gl.constexpr(NUMBERS)
SUMS_WARPS = gl.constexpr(2)  # a warpgroup's registers are for them and the loader's warp
# [2 warps, 32, 32]: its 8 x 8 blocks as operands and accumulators of mma have them
_quarter = gl.constexpr(
    gl.DistributedLinearLayout(
        [[0, 0, 1], [0, 8, 0], [0, 0, 8], [0, 16, 0], [0, 0, 16]],
        [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]],
        [[1, 0, 0]],
        [],
        [2, 32, 32],
    )
)
_block = gl.constexpr(gl.BlockedLayout([1, 1, 2], [1, 8, 4], [2, 1, 1], [2, 1, 0]))  # [2 warps, 8, 8], one block


@struct
class Diagonals:
    """Sums of blocks, [2 warps, 8, 8] each, of the seven diagonals of a quarter, the one of the last keys first."""

    d_0: gl.tensor
    d_1: gl.tensor
    d_2: gl.tensor
    d_3: gl.tensor
    d_4: gl.tensor
    d_5: gl.tensor
    d_6: gl.tensor


@gluon.jit
def _zero():
    return gl.zeros([SUMS_WARPS, 8, 8], gl.float32, _block)


@gluon.jit
def _warp():
    return gl.arange(0, SUMS_WARPS, gl.SliceLayout(1, gl.SliceLayout(2, _block)))[:, None, None]


@gluon.jit
def _row():
    return gl.arange(0, 8, gl.SliceLayout(0, gl.SliceLayout(2, _block)))[None, :, None]


@gluon.jit
def _column():
    return gl.arange(0, 8, gl.SliceLayout(0, gl.SliceLayout(1, _block)))[None, None, :]


@gluon.jit
def _four(x):
    """Of a row of blocks, [2, 8, 8, 2, 2]."""
    even, odd = gl.split(x)
    b_0, b_2 = gl.split(even)
    b_1, b_3 = gl.split(odd)
    return (
        gl.convert_layout(b_0, _block, assert_trivial=True),
        gl.convert_layout(b_1, _block, assert_trivial=True),
        gl.convert_layout(b_2, _block, assert_trivial=True),
        gl.convert_layout(b_3, _block, assert_trivial=True),
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
def _add_quarter(ds, keys: gl.constexpr, queries: gl.constexpr, d_0, d_1, d_2, d_3, d_4, d_5, d_6):
    """To seven diagonals the blocks of both halves' 32 keys from `keys` on and the queries from `queries` on."""
    none = _zero().to(ds.dtype)
    identity = gl.where(_row() == _column() + 0 * _warp(), 1.0, 0.0).to(ds.dtype)
    x = gl.reshape(ds.slice(keys, 32, 1).slice(queries, 32, 2).load(_quarter), (2, 2, 2, 8, 2, 2, 8))
    even, odd = gl.split(gl.permute(x, (0, 3, 6, 4, 5, 1, 2)))
    row_0, row_2 = gl.split(even)
    row_1, row_3 = gl.split(odd)
    a_0, a_1, a_2, a_3 = _four(row_0)
    b_0, b_1, b_2, b_3 = _four(row_1)
    c_0, c_1, c_2, c_3 = _four(row_2)
    e_0, e_1, e_2, e_3 = _four(row_3)
    d_0, d_1 = _add(d_0, d_1, identity, e_0, none, c_0, e_1)
    d_2, d_3 = _add(d_2, d_3, identity, b_0, c_1, a_0, b_1)
    d_2, d_3 = _add(d_2, d_3, identity, e_2, none, c_2, e_3)
    d_4, d_5 = _add(d_4, d_5, identity, a_1, b_2, a_2, b_3)
    d_4, d_6 = _add(d_4, d_6, identity, c_3, none, a_3, none)
    return Diagonals(d_0, d_1, d_2, d_3, d_4, d_5, d_6)


@gluon.jit
def _place(sums: Sums, distance):
    """Where the first two diagonals of a tile are."""
    pair = distance // 16 + (_before - 4 * _warp())
    place = pair * _numbers_of_pair + (_row() * 16 + (_column() >> 1) * 4)
    return (sums.of_blocks + place).to(gl.int64)


@gluon.jit
def _put(address, pair: gl.constexpr, upper, lower, follows):
    """Adds two neighbouring diagonals to memory, if they follow the tables'; and returns their sum."""
    if follows:
        gl.inline_asm_elementwise(
            "red.relaxed.gpu.global.add.v4.f32 [$2], {$4, $5, $6, $7}; mov.b32 $0, 0; mov.b32 $1, 0;",
            "=r,=r,l,l,f,f,f,f",
            [address + 4 * pair * _numbers_of_pair, upper, lower],
            dtype=gl.int32,
            is_pure=False,
            pack=2,
        )
    return upper + lower


@gluon.jit
def add_diagonals_of(ds, sums: Sums, distance, follows):
    """Of `ds` [2, 64, 64], both halves' keys. `distance`: between the first query and the first key. The sum of all."""
    zero = _zero()
    address = _place(sums, distance)
    x = _add_quarter(ds, 32, 0, zero, zero, zero, zero, zero, zero, zero)
    total = _put(address, 0, x.d_0, x.d_1, follows)
    total += _put(address, 1, x.d_2, x.d_3, follows)
    x = _add_quarter(ds, 0, 0, x.d_4, x.d_5, x.d_6, zero, zero, zero, zero)
    x = _add_quarter(ds, 32, 32, x.d_0, x.d_1, x.d_2, x.d_3, x.d_4, x.d_5, x.d_6)
    total += _put(address, 2, x.d_0, x.d_1, follows)
    total += _put(address, 3, x.d_2, x.d_3, follows)
    x = _add_quarter(ds, 0, 32, x.d_4, x.d_5, x.d_6, zero, zero, zero, zero)
    total += _put(address, 4, x.d_0, x.d_1, follows)
    total += _put(address, 5, x.d_2, x.d_3, follows)
    total += _put(address, 6, x.d_4, x.d_5, follows)
    total += _put(address, 7, x.d_6, zero, follows)
    return total


@gluon.jit
def add_times(sums: Sums, total, bits_0, bits_1, scale):
    """Adds the halves' sums to their buckets, by each half's `bits` (Relative.bits); tiles of several buckets are in
    uneven_tiles.py."""
    of_warp = gl.sum(gl.sum(total, 2), 1)
    bits = gl.where(gl.arange(0, SUMS_WARPS, of_warp.type.layout) == 0, bits_0, bits_1)
    gl.atomic_add(sums.of_time + bits, of_warp * scale, mask=of_one_bucket(bits), sem="relaxed")


@gluon.jit
def of_tables(m: Shared, sums: Sums, scale):
    """The partition: adds to the gradients of the tables what all tiles contribute, one after another."""
    used = 0
    slot, phase = m.slot(used)
    mbarrier.wait(m.ds_full.index(slot * 2), phase)
    mbarrier.wait(m.ds_full.index(slot * 2 + 1), phase)
    place, bits_0, bits_1 = m.about_ds(slot, SUMS_WARPS)
    while place != END:
        total = add_diagonals_of(m.whole_ds(slot), sums, place, (place & 1) == 0)
        mbarrier.arrive(m.ds_empty.index(slot), count=1)
        add_times(sums, total, bits_0, bits_1, scale)
        used += 1
        slot, phase = m.slot(used)
        mbarrier.wait(m.ds_full.index(slot * 2), phase)
        mbarrier.wait(m.ds_full.index(slot * 2 + 1), phase)
        place, bits_0, bits_1 = m.about_ds(slot, SUMS_WARPS)
