"""Lookups of rows by slots, and first values of new rows (csrc/rows/initializers.cpp)."""

import triton
import triton.language as tl

from hybrid_torchrec.backends.cuda.layout import (
    AGAIN,
    COUNTERS,
    FIRST_MOMENT,
    NEW,
    PARTS,
    SECOND_MOMENT,
    SEED,
    element_range,
    int64_pointer,
    mix64,
    mix_pair,
    moments,
    rows,
)
from hybrid_torchrec.initializers import Constant, Normal, TruncatedNormal, Uniform

KINDS = tuple(kind.kind for kind in (Constant, Uniform, Normal, TruncatedNormal))
CONSTANT, UNIFORM, NORMAL, TRUNCATED_NORMAL = (tl.constexpr(kind) for kind in KINDS)
# Where `numbers` has the initialiser's parameters, the limits of the normal quantile's parts, and their polynomials.
A, B, LOW, HIGH, MIDDLE, SQUARE, SHIFT, FAR = (tl.constexpr(i) for i in range(8))
POLYNOMIALS = tl.constexpr(8)
NUMBERS = tl.constexpr(8 + 3 * 16)  # of a table


@triton.jit(do_not_specialize=["count"])
def gather(
    slots,
    out,
    parts,
    starts,
    count,
    DTYPE: tl.constexpr,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
    GROUPED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """out[i] = the row of slots[i], in float32."""
    table = tl.program_id(1)
    first, end = element_range(starts, count, table, GROUPED)
    at = first + tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    if tl.program_id(0).to(tl.int64) * ROWS < end - first:
        weights = rows(parts, table, DTYPE)
        slot = tl.load(slots + at, mask=at < end, other=0)
        wanted = (at < end)[:, None] & (column < D)[None, :]
        values = tl.load(weights + slot[:, None] * D + column[None, :], mask=wanted)
        tl.store(out + at[:, None] * D + column[None, :], values.to(tl.float32), mask=wanted)


@triton.jit(do_not_specialize=["count"])
def pool(
    slots,
    offsets,
    factors,
    out,
    parts,
    starts,
    count,
    DTYPE: tl.constexpr,
    MEAN: tl.constexpr,
    WEIGHTED: tl.constexpr,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
    GROUPED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """out[b] = sum (mean) of the rows of a bag, times their factors; starts and count are of bags."""
    table = tl.program_id(1)
    first_bag, end_bag = element_range(starts, count, table, GROUPED)
    bag = first_bag + tl.program_id(0).to(tl.int64)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    if bag < end_bag:
        weights = rows(parts, table, DTYPE)
        first = tl.load(offsets + bag)
        end = tl.load(offsets + bag + 1)
        total = tl.zeros((COLUMNS,), tl.float32)
        for start in range(first, end, ROWS):
            at = start + tl.arange(0, ROWS)
            slot = tl.load(slots + at, mask=at < end, other=0)
            wanted = (at < end)[:, None] & (column < D)[None, :]
            values = tl.load(weights + slot[:, None] * D + column[None, :], mask=wanted, other=0).to(tl.float32)
            if WEIGHTED:
                values *= tl.load(factors + at, mask=at < end, other=0)[:, None]
            total += tl.sum(values, 0)
        if MEAN:
            total = tl.div_rn(total, tl.zeros((COLUMNS,), tl.float32) + tl.maximum(end - first, 1).to(tl.float32))
        tl.store(out + bag * D + column, total, mask=column < D)


@triton.jit(do_not_specialize=["count"])
def factor_gradients(
    slots,
    bags,
    gradients,
    out,
    parts,
    starts,
    count,
    DTYPE: tl.constexpr,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
    GROUPED: tl.constexpr,
):
    """out[i] = the row of slots[i] times the gradient of its bag."""
    table = tl.program_id(1)
    first, end = element_range(starts, count, table, GROUPED)
    at = first + tl.program_id(0).to(tl.int64)
    if at < end:
        weights = rows(parts, table, DTYPE)
        slot = tl.load(slots + at)
        bag = tl.load(bags + at)
        total = tl.zeros((COLUMNS,), tl.float32)
        for start in range(0, D, COLUMNS):
            column = start + tl.arange(0, COLUMNS)
            row = tl.load(weights + slot * D + column, mask=column < D, other=0).to(tl.float32)
            total += row * tl.load(gradients + bag * D + column, mask=column < D, other=0).to(tl.float32)
        tl.store(out + at, tl.sum(total, 0))


@triton.jit
def _ratio(numbers, part: tl.constexpr, x):
    """The quotient of two polynomials of degree 7."""
    above = tl.zeros_like(x) + tl.load(numbers + POLYNOMIALS + part * 16 + 7)
    below = tl.zeros_like(x) + tl.load(numbers + POLYNOMIALS + part * 16 + 15)
    for i in tl.static_range(7):
        above = above * x + tl.load(numbers + POLYNOMIALS + part * 16 + 6 - i)
        below = below * x + tl.load(numbers + POLYNOMIALS + part * 16 + 14 - i)
    return above / below


@triton.jit
def _normal_quantile(numbers, p):
    """Algorithm AS 241 (PPND16), M. J. Wichura, Applied Statistics 37 (1988); p float64."""
    q = p - 0.5
    square = tl.load(numbers + SQUARE)
    middle = q * _ratio(numbers, 0, square - q * q)
    r = tl.sqrt(-tl.log(tl.minimum(p, 1.0 - p)))
    shift = tl.load(numbers + SHIFT)
    far = tl.load(numbers + FAR)
    tail = tl.where(r <= far, _ratio(numbers, 1, r - shift), _ratio(numbers, 2, r - far))
    return tl.where(tl.abs(q) <= tl.load(numbers + MIDDLE), middle, tl.where(q < 0, -tail, tail))


@triton.jit(do_not_specialize=["count"])
def start(
    keys,
    slots,
    numbers,
    parts,
    starts,
    count,
    KIND: tl.constexpr,
    DTYPE: tl.constexpr,
    D: tl.constexpr,
    FIRST_WIDTH: tl.constexpr,
    SECOND_WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    GROUPED: tl.constexpr,
    COUNTED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """First values of the rows of `slots` by their keys, and a state of zero. COUNTED: of counters[NEW] rows, and only
    the first counters[AGAIN] have had another state than zero. Two columns share 64 bits that were drawn.
    """
    table = tl.program_id(1)
    numbers += table * NUMBERS
    first, end = element_range(starts, count, table, GROUPED)
    used = end  # have a state
    if COUNTED:
        used = first + tl.load(int64_pointer(parts, table, COUNTERS) + AGAIN)
        end = first + tl.load(int64_pointer(parts, table, COUNTERS) + NEW)
    weights = rows(parts, table, DTYPE)
    seed = tl.load(parts + table * PARTS + SEED).to(tl.uint64, bitcast=True)
    row = tl.arange(0, ROWS)
    turn = tl.num_programs(0) * ROWS
    following = first + tl.program_id(0) * ROWS + row
    next_slot = tl.load(slots + following, mask=following < end, other=0)
    next_key = tl.load(keys + following, mask=following < end, other=0)
    for block in range(first + tl.program_id(0) * ROWS, end, turn):
        at = block + row
        inside = at < end
        slot, key = next_slot, next_key
        next_slot = tl.load(slots + at + turn, mask=at + turn < end, other=0)  # comes while this turn's are stored
        next_key = tl.load(keys + at + turn, mask=at + turn < end, other=0)
        begin = mix_pair(seed, key.to(tl.uint64, bitcast=True))[:, None]
        for left in range(0, D, COLUMNS):
            column = (left + tl.arange(0, COLUMNS))[None, :]
            if KIND == CONSTANT:
                value = tl.zeros((ROWS, COLUMNS), tl.float64) + tl.load(numbers + A)
            else:
                pair = (left // 2 + tl.arange(0, COLUMNS // 2))[None, :]
                bits = mix64(begin + 0x9E3779B97F4A7C15 * (pair + 1).to(tl.uint64))
                drawn = tl.interleave(bits >> 32, bits & 0xFFFFFFFF)
                # As the mantissa of 2^52 + drawn: conversions of integers are slow.
                number = (drawn | 0x4330000000000000).to(tl.float64, bitcast=True) - 4503599627370496.0
                u = (number + 0.5) * 2.3283064365386963e-10  # 2^-32
                if KIND == UNIFORM:
                    low = tl.load(numbers + A)
                    value = low + (tl.load(numbers + B) - low) * u
                else:
                    tl.static_assert(KIND == NORMAL or KIND == TRUNCATED_NORMAL)  # noqa: SIM109
                    if KIND == TRUNCATED_NORMAL:
                        low = tl.load(numbers + LOW)
                        u = low + (tl.load(numbers + HIGH) - low) * u
                    value = tl.load(numbers + A) + tl.load(numbers + B) * _normal_quantile(numbers, u)
            value = value.to(tl.float32).to(DTYPE)
            tl.store(weights + slot[:, None] * D + column, value, mask=inside[:, None] & (column < D))
            if block < used:
                had = (inside & (at < used))[:, None]
                zero = tl.zeros((ROWS, COLUMNS), tl.float32)
                if FIRST_WIDTH > 0:
                    target = moments(parts, table, FIRST_MOMENT) + slot[:, None] * FIRST_WIDTH + column
                    tl.store(target, zero, mask=had & (column < FIRST_WIDTH))
                if SECOND_WIDTH > 0:
                    target = moments(parts, table, SECOND_MOMENT) + slot[:, None] * SECOND_WIDTH + column
                    tl.store(target, zero, mask=had & (column < SECOND_WIDTH))
