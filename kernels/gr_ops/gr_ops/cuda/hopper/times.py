"""What the relative bias on Hopper needs of tables and times, in two launches before the kernels; plain Triton.

A block is 64 tokens of a sequence. The least and the greatest time of two blocks bound the buckets of the tile of one's
queries and the other's keys: a code tells the first bucket, its number, and how many buckets follow. Tiles at the
diagonal have a dozen buckets and more, the same for all heads: their numbers are written down. All numbers are scaled
as the kernels scale their scores.

What few tiles need is in one buffer of int64, `tables`, whose address each row of codes begins with: a pointer more
takes registers of the kernels. With S tokens, one after the other:
    S [HEADER]; cells [CELLS]; lows, highs [S], the least and the greatest time of each token's block; times [S];
    parts [S], each token's seconds from the one (lower half) and to the other (upper half), at most FAR;
    nears [S, DIAGONALS, BLOCK], float16, the numbers of time at the diagonal; of each bucket the seconds from which on
    it or a later one is meant, and its number, float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.hopper.tile_ranges import row_of

BLOCK = 64  # tokens
BEFORE, BEHIND = 128, 256  # distances of a tile that no cell has
DIAGONALS = 2  # blocks of keys whose numbers of time are written down for a block of queries: its own, the one before
SEARCHED = 4  # buckets that a program of `prepare` looks for
FAR = (1 << 30) - 1  # seconds; two of them add up to 32 bits
HEADER, CELLS = 16, 512
FIRST = 2  # the place of the first code in a row of codes
AROUND = FIRST + 3  # numbers of a row besides its codes; those behind them are asked for too early
PADDING = 128  # tokens behind the last one that a tile may read


def size(total: int, buckets: int) -> int:
    """Of `tables`, for a power of two of buckets."""
    return HEADER + CELLS + (total + PADDING) * (4 + DIAGONALS * BLOCK // 4) + 2 * buckets


@triton.jit
def _row_of(offsets, sequence, total, longest, LISTED: tl.constexpr):
    """Where a sequence begins, and its length, as batch.Batch has them."""
    begin, length, _, _ = row_of(offsets, offsets, offsets, sequence, total, longest, False)
    if not LISTED:
        begin = sequence * longest
        length = longest
    return begin, length


@triton.jit
def bucket_of(seconds, cells):
    """As relative_bias.time_bucket, of integers."""
    at = tl.maximum(seconds, 1).to(tl.float32)
    cell = tl.load(cells + ((at.to(tl.int32, bitcast=True) >> 20) - 1016))
    edge = (cell >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return (cell & 65535).to(tl.int32) + (at >= edge).to(tl.int32)


@triton.jit(
    do_not_specialize=["half", "sequences", "total", "longest", "blocks", "distances", "buckets", "pairs"],
    do_not_specialize_on_alignment=["position", "time", "times", "cells", "offsets", "band", "tables"],
)
def prepare(
    position,
    time,
    times,
    cells,
    offsets,
    band,
    tables,
    half,
    sequences,
    total,
    longest,
    blocks,
    distances,
    buckets,
    pairs,
    LISTED: tl.constexpr,
    T: tl.constexpr,
    SEARCHED: tl.constexpr,
    BLOCK: tl.constexpr,
    DIAGONALS: tl.constexpr,
    BEFORE: tl.constexpr,
    PADDING: tl.constexpr,
    HEADER: tl.constexpr,
    CELLS: tl.constexpr,
    FAR: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """All tables but nears. band [2, 2 pairs]: position, between numbers for distances that it does not have; the
    second time from the second one on, so that any two neighbours are an aligned pair."""
    program = tl.program_id(0)
    padded = (total + PADDING).to(tl.int64)
    if program < sequences * blocks:
        sequence = program // blocks
        first = program % blocks * BLOCK
        begin, length = _row_of(offsets, sequence, total, longest, LISTED)
        if first < length:
            token = first + tl.arange(0, BLOCK)
            second = tl.load(times + begin + tl.minimum(token, length - 1))
            low, high = tl.min(second, 0), tl.max(second, 0)
            row = tables + HEADER + CELLS + begin
            there = token < length
            tl.store(row + token, tl.zeros_like(second) + low, mask=there)
            tl.store(row + padded + token, tl.zeros_like(second) + high, mask=there)
            tl.store(row + 2 * padded + token, second, mask=there)
            parts = tl.minimum(second - low, FAR) | (tl.minimum(high - second, FAR) << 32)
            tl.store(row + 3 * padded + token, parts, mask=there)
    elif program < sequences * blocks + T // SEARCHED:
        number = tl.arange(0, CELLS)
        tl.store(tables, padded)
        tl.store(tables + HEADER + number, tl.load(cells + number))
        if program == sequences * blocks:  # what tiles read behind the last token, and do not use
            of_tokens = tables + HEADER + CELLS
            for part in tl.static_range(4):
                tl.store(of_tokens + part * padded + total + tl.arange(0, PADDING), tl.zeros([PADDING], tl.int64))
            WIDTH: tl.constexpr = DIAGONALS * BLOCK // 4
            nears = of_tokens + 4 * padded + total.to(tl.int64) * WIDTH
            tl.store(nears + tl.arange(0, PADDING * WIDTH), tl.zeros([PADDING * WIDTH], tl.int64))
        bucket = (program - sequences * blocks) * SEARCHED + tl.arange(0, SEARCHED)
        before = tl.zeros([SEARCHED], tl.int64)  # seconds that are of an earlier bucket, or 0
        thirty_two = tl.arange(0, 32)
        for digit in range(12):
            step = tl.cast(1, tl.int64) << (55 - 5 * digit)
            tried = before[:, None] + step * thirty_two[None, :]
            earlier = (bucket_of(tried, cells) < bucket[:, None]) | (thirty_two == 0)[None, :]
            before += step * (tl.sum(earlier.to(tl.int64), 1) - 1)
        out = tables + HEADER + CELLS + padded * (4 + DIAGONALS * BLOCK // 4) + 2 * bucket
        scaled = tl.load(time + bucket, mask=bucket < buckets, other=0.0) * half
        tl.store(out, before + 1)
        tl.store(out + 1, scaled.to(tl.int32, bitcast=True).to(tl.int64))
    else:
        place = (program - sequences * blocks - T // SEARCHED) * CHUNK + tl.arange(0, CHUNK)
        copy = place // (2 * pairs)
        distance = tl.minimum(tl.maximum(place - 2 * pairs * copy + copy - BEFORE, 0), distances - 1)
        inside = place < 4 * pairs
        tl.store(band + place, tl.load(position + distance, mask=inside, other=0.0) * half, mask=inside)


@triton.jit(
    do_not_specialize=["total", "longest", "blocks"],
    do_not_specialize_on_alignment=["offsets", "tables", "codes"],
)
def encode(
    offsets,
    tables,
    codes,
    total,
    longest,
    blocks,
    LISTED: tl.constexpr,
    OF_QUERIES: tl.constexpr,
    FIRST: tl.constexpr,
    AROUND: tl.constexpr,
    BLOCK: tl.constexpr,
    DIAGONALS: tl.constexpr,
    PADDING: tl.constexpr,
    HEADER: tl.constexpr,
    CELLS: tl.constexpr,
    FAR: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """codes [sequences, blocks, AROUND + blocks]: of a block of queries, if not OF_QUERIES of keys, the addresses of
    the tables and of its nears, then for each block of the others: in bits 0 to 31 the first bucket's number, float32;
    32 to 47 the bucket; 48 to 62 how many follow; 63 whether the last one begins FAR seconds behind the soonest of the
    tile or later.

    nears: the numbers of time of a query and the keys of its own block and of those before; if not OF_QUERIES, of a key
    and the queries of its own block and of those behind.
    """
    padded = (total + PADDING).to(tl.int64)
    of_cells = tables + HEADER
    lows = of_cells + CELLS
    of_buckets = lows + padded * (4 + DIAGONALS * BLOCK // 4)
    nears = (lows + 4 * padded).to(tl.pointer_type(tl.float16), bitcast=True)
    sequence = tl.program_id(0) // blocks
    block = tl.program_id(0) % blocks
    begin, length = _row_of(offsets, sequence, total, longest, LISTED)
    lows += begin
    highs = lows + padded
    part = tl.program_id(1)
    if (block * BLOCK < length) & (part == 0):
        low = tl.load(lows + block * BLOCK)
        high = tl.load(highs + block * BLOCK)
        row = codes + (sequence.to(tl.int64) * blocks + block) * (AROUND + blocks)
        tl.store(row, tables.to(tl.int64))
        tl.store(row + 1, (nears + (begin + block * BLOCK).to(tl.int64) * (DIAGONALS * BLOCK)).to(tl.int64))
        behind = (length + BLOCK - 1) // BLOCK + (AROUND - FIRST)
        for start in range(0, behind, CHUNK):
            other = start + tl.arange(0, CHUNK)
            inside = other * BLOCK < length
            other_low = tl.load(lows + other * BLOCK, mask=inside, other=0)
            other_high = tl.load(highs + other * BLOCK, mask=inside, other=0)
            soonest = low - other_high if OF_QUERIES else other_low - high
            latest = high - other_low if OF_QUERIES else other_high - low
            first = bucket_of(soonest, of_cells)
            last = bucket_of(latest, of_cells)
            far = (last > first) & (tl.load(of_buckets + 2 * last, mask=inside, other=0) - soonest >= FAR)
            number = tl.load(of_buckets + 2 * first + 1, mask=inside, other=0)
            bits = first | ((last - first) << 16) | (far.to(tl.int32) << 31)
            code = tl.where(inside, (bits.to(tl.int64) << 32) | (number & 0xFFFFFFFF), 0)
            tl.store(row + FIRST + other, code, mask=other < behind)
    elif block * BLOCK < length:
        own = block * BLOCK + tl.arange(0, BLOCK)
        of_own = tl.load(highs + padded + tl.minimum(own, length - 1))
        diagonal = part - 1
        other = (block - diagonal if OF_QUERIES else block + diagonal) * BLOCK + tl.arange(0, BLOCK)
        of_other = tl.load(highs + padded + tl.minimum(tl.maximum(other, 0), length - 1))
        apart = of_own[:, None] - of_other[None, :]
        number = tl.load(of_buckets + 2 * bucket_of(apart if OF_QUERIES else -apart, of_cells) + 1).to(tl.int32)
        place = ((begin + own).to(tl.int64) * DIAGONALS + diagonal)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
        tl.store(nears + place, number.to(tl.float32, bitcast=True).to(tl.float16), mask=(own < length)[:, None])
