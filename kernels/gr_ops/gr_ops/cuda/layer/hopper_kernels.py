"""The products of product_kernels.py on Hopper: a loader warp and two warpgroups of 64 tokens each, by TMA and wgmma.

A program goes through its tiles. While one warpgroup applies its function and writes, the other one multiplies: the
loader is as many steps ahead as there are stages, so that either may lag. Columns are tensors' parts in multiples of
128, inner elements of a step 64, so only the last tokens are cut.

Shape suffixes as in layer/__init__.py; of a warpgroup.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from gr_ops.cuda.hopper.batch import tanh
from gr_ops.cuda.hopper.ring import make_barriers
from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.slope_codes import STEPS, ZERO

TOKENS, INNER, COLUMNS = gl.constexpr(64), gl.constexpr(64), gl.constexpr(128)  # of a warpgroup's piece of a product
SILU, CODED, SLOPE, RESIDUAL = gl.constexpr(0), gl.constexpr(1), gl.constexpr(2), gl.constexpr(3)
BYTES = gl.constexpr(16)  # of a thread at a time
_steps, _zero = gl.constexpr(STEPS), gl.constexpr(ZERO)


@struct
class Stages:
    """Steps of a product: rows of both warpgroups, and one or two pieces of the columns."""

    a: gl.shared_memory_descriptor  # [2 STAGES, TOKENS, INNER]
    b: gl.shared_memory_descriptor  # [PIECES STAGES, INNER, COLUMNS], or columns first
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    STAGES: gl.constexpr
    PIECES: gl.constexpr
    COLUMNS_FIRST: gl.constexpr

    @gluon.jit
    def load(self, number, a_desc, b_desc, row, column, inner):
        """The loader's: waits until the stage of this step is empty, and has TMA fill it."""
        stage = number % self.STAGES
        mbarrier.wait(self.empty.index(stage), ((number // self.STAGES) & 1) ^ 1)
        full = self.full.index(stage)
        mbarrier.expect(full, 2 * INNER * (2 * TOKENS + self.PIECES * COLUMNS))
        for half in gl.static_range(2):
            tma.async_copy_global_to_shared(a_desc, [row + half * TOKENS, inner], full, self.a.index(stage * 2 + half))
        for piece in gl.static_range(self.PIECES):
            first = column + piece * COLUMNS
            into = self.b.index(stage * self.PIECES + piece)
            if self.COLUMNS_FIRST:
                tma.async_copy_global_to_shared(b_desc, [first, inner], full, into)
            else:
                tma.async_copy_global_to_shared(b_desc, [inner, first], full, into)

    @gluon.jit
    def columns(self, stage, piece: gl.constexpr):
        """[INNER, COLUMNS]"""
        b = self.b.index(stage * self.PIECES + piece)
        if self.COLUMNS_FIRST:
            b = b.permute((1, 0))
        return b


@struct
class Parts:
    """Tensors beside each other, as the columns of one; those that are not there are the last one, from its end on."""

    part_0: gl.tensor
    part_1: gl.tensor
    part_2: gl.tensor
    part_3: gl.tensor
    begin_1: gl.tensor
    begin_2: gl.tensor
    begin_3: gl.tensor
    stride_0: gl.tensor
    stride_1: gl.tensor
    stride_2: gl.tensor
    stride_3: gl.tensor

    @gluon.jit
    def at(self, row, column, row_M1, column_1N):
        """Pointers [M, N] from a row and a column on; the columns are of one part."""
        part, begin, stride = self.part_0, column * 0, self.stride_0
        if column >= self.begin_1:
            part, begin, stride = self.part_1, self.begin_1, self.stride_1
        if column >= self.begin_2:
            part, begin, stride = self.part_2, self.begin_2, self.stride_2
        if column >= self.begin_3:
            part, begin, stride = self.part_3, self.begin_3, self.stride_3
        base = part + row.to(gl.int64) * stride + (column - begin)
        return base + (row_M1 * stride + column_1N)


@gluon.jit
def _load(a_desc, b_desc, m: Stages, tokens, tiles, steps):
    items = gl.cdiv(tokens, 2 * TOKENS) * tiles
    number = 0
    for item in range(gl.program_id(0), items, gl.num_programs(0)):
        row, column = item // tiles * (2 * TOKENS), item % tiles * (m.PIECES * COLUMNS)
        for step in range(steps):
            m.load(number, a_desc, b_desc, row, column, step * INNER)
            number += 1


@gluon.jit
def _places(VECTOR: gl.constexpr):
    """Rows [M, 1] and columns [1, N] of a piece, in the layout in which memory is read and written."""
    across: gl.constexpr = COLUMNS // VECTOR
    layout: gl.constexpr = gl.BlockedLayout([1, VECTOR], [32 // across, across], [4, 1], [1, 0])
    row = gl.arange(0, TOKENS, gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, COLUMNS, gl.SliceLayout(0, layout))[None, :]
    return row, column


@gluon.jit
def _read(parts: Parts, row, column, tokens, VECTOR: gl.constexpr):
    row_M1, column_1N = _places(VECTOR)
    return gl.load(parts.at(row, column, row_M1, column_1N), mask=row_M1 < tokens - row, other=0.0)


@gluon.jit
def _write(parts: Parts, row, column, tokens, x, VECTOR: gl.constexpr):
    row_M1, column_1N = _places(VECTOR)
    x = gl.convert_layout(x, gl.BlockedLayout([1, VECTOR], [VECTOR // 4, COLUMNS // VECTOR], [4, 1], [1, 0]))
    gl.store(parts.at(row, column, row_M1, column_1N), x, mask=row_M1 < tokens - row)


@gluon.jit
def _finish(x, read, bias, inputs: Parts, parts: Parts, row, column, tokens, KIND: gl.constexpr, VECTOR: gl.constexpr):
    """Of one piece: its function, and its place."""
    dtype: gl.constexpr = parts.part_0.dtype.element_ty
    if KIND == SLOPE:
        h = 0.5 * x
        t = tanh(h)
        grad = gl.convert_layout(read, x.type.layout).to(gl.float32)
        _write(parts, row, column, tokens, (grad * (0.5 * (1.0 + t + h * (1.0 - t * t)))).to(dtype), VECTOR)
    elif KIND == RESIDUAL:
        row_M1, column_1N = _places(VECTOR)
        bias_1N = gl.load(bias + column + column_1N).to(gl.float32)
        product = gl.convert_layout(x, read.type.layout)
        found = (read.to(gl.float32) + (product + bias_1N)).to(dtype)
        gl.store(parts.at(row, column, row_M1, column_1N), found, mask=row_M1 < tokens - row)
    else:
        h = 0.5 * x
        t = tanh(h)
        silu = h * t + h
        _write(parts, row, column, tokens, silu.to(dtype), VECTOR)
        if KIND == CODED:
            slope = 0.5 * t + 0.5
            slope = slope + silu * (1.0 - slope)
            codes = (slope * _steps + (_zero + 0.5)).to(gl.uint8)
            _write(inputs, row, column, tokens, codes, BYTES)


@gluon.jit
def _step(m: Stages, number, x_0, x_1, HALF: gl.constexpr, ADD: gl.constexpr):
    """Of a product: begins one, and waits for the one before."""
    stage = number % m.STAGES
    mbarrier.wait(m.full.index(stage), (number // m.STAGES) & 1)
    a = m.a.index(stage * 2 + HALF)
    begun_0 = warpgroup_mma(a, m.columns(stage, 0), x_0, use_acc=ADD, is_async=True)
    if m.PIECES == 2:
        begun_1 = warpgroup_mma(a, m.columns(stage, 1), x_1, use_acc=ADD, is_async=True)
        x_0, x_1 = warpgroup_mma_wait(2, deps=(begun_0, begun_1))
    else:
        x_0 = warpgroup_mma_wait(1, deps=(begun_0,))
    return x_0, x_1


@gluon.jit
def _multiply(
    m: Stages,
    inputs: Parts,
    outputs: Parts,
    bias,
    tokens,
    tiles,
    steps,
    HALF: gl.constexpr,
    KIND: gl.constexpr,
    VECTOR: gl.constexpr,
):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, COLUMNS, 16])
    items = gl.cdiv(tokens, 2 * TOKENS) * tiles
    zero = gl.zeros([TOKENS, COLUMNS], gl.float32, layout)
    number = 0
    for item in range(gl.program_id(0), items, gl.num_programs(0)):
        row, column = item // tiles * (2 * TOKENS) + HALF * TOKENS, item % tiles * (m.PIECES * COLUMNS)
        read_0 = zero
        read_1 = zero
        if KIND >= SLOPE:  # on their way while the products run
            read_0 = _read(inputs, row, column, tokens, VECTOR)
            if m.PIECES == 2:
                read_1 = _read(inputs, row, column + COLUMNS, tokens, VECTOR)
        x_0, x_1 = _step(m, number, zero, zero, HALF, False)
        number += 1
        for _ in range(1, steps):
            x_0, x_1 = _step(m, number, x_0, x_1, HALF, True)
            mbarrier.arrive(m.empty.index((number - 1) % m.STAGES), count=1)
            number += 1
        x_0, x_1 = warpgroup_mma_wait(0, deps=(x_0, x_1))
        mbarrier.arrive(m.empty.index((number - 1) % m.STAGES), count=1)
        _finish(x_0, read_0, bias, inputs, outputs, row, column, tokens, KIND, VECTOR)
        if m.PIECES == 2:
            _finish(x_1, read_1, bias, inputs, outputs, row, column + COLUMNS, tokens, KIND, VECTOR)


@gluon.jit(do_not_specialize=["tokens"])
def product(
    a_desc,
    b_desc,
    in_0,
    in_1,
    in_2,
    in_3,
    out_0,
    out_1,
    out_2,
    out_3,
    bias,
    begin_1,
    begin_2,
    begin_3,
    in_stride_0,
    in_stride_1,
    in_stride_2,
    in_stride_3,
    out_begin_1,
    out_begin_2,
    out_begin_3,
    out_stride_0,
    out_stride_1,
    out_stride_2,
    out_stride_3,
    tokens,
    tiles,
    steps,
    STAGES: gl.constexpr,
    PIECES: gl.constexpr,
    COLUMNS_FIRST: gl.constexpr,
    KIND: gl.constexpr,
    VECTOR: gl.constexpr,
):
    """KIND SILU: out = SiLU(a b); CODED: the same, and in = the codes of SiLU'(a b), which are written; SLOPE: out =
    in * SiLU'(a b); RESIDUAL: out = in + a b + bias."""
    inputs = Parts(
        in_0, in_1, in_2, in_3, begin_1, begin_2, begin_3, in_stride_0, in_stride_1, in_stride_2, in_stride_3
    )
    outputs = Parts(
        out_0,
        out_1,
        out_2,
        out_3,
        out_begin_1,
        out_begin_2,
        out_begin_3,
        out_stride_0,
        out_stride_1,
        out_stride_2,
        out_stride_3,
    )
    b_shape: gl.constexpr = [COLUMNS, INNER] if COLUMNS_FIRST else [INNER, COLUMNS]
    m = Stages(
        gl.allocate_shared_memory(a_desc.dtype, [2 * STAGES, TOKENS, INNER], a_desc.layout),
        gl.allocate_shared_memory(b_desc.dtype, [PIECES * STAGES, b_shape[0], b_shape[1]], b_desc.layout),
        make_barriers(STAGES, 1),
        make_barriers(STAGES, 2),
        STAGES,
        PIECES,
        COLUMNS_FIRST,
    )
    gl.warp_specialize(
        [
            (_multiply, (m, inputs, outputs, bias, tokens, tiles, steps, 0, KIND, VECTOR)),
            (_multiply, (m, inputs, outputs, bias, tokens, tiles, steps, 1, KIND, VECTOR)),
            (_load, (a_desc, b_desc, m, tokens, tiles, steps)),
        ],
        [4, 1],
        [240, 24],
    )
