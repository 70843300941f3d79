"""What the relative bias on Hopper needs of tables and times, in two launches before the kernels; plain Triton.

A block is 64 tokens of a sequence. The least and the greatest time of two blocks bound the buckets of the tile of one's
queries and the other's keys: a code tells the first bucket (lower half) and how many follow (upper half).
"""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.hopper.tile_ranges import row_of

BLOCK = 64  # tokens
BEFORE, BEHIND = 128, 256  # distances of a tile that no cell has
FAR = (1 << 30) - 1  # seconds; two of them add up to 32 bits


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
    do_not_specialize=["sequences", "total", "longest", "blocks", "distances"],
    do_not_specialize_on_alignment=[
        "position",
        "times",
        "cells",
        "offsets",
        "band",
        "least",
        "lows",
        "highs",
        "afters",
        "befores",
    ],
)
def prepare(
    position,
    times,
    cells,
    offsets,
    band,
    least,
    lows,
    highs,
    afters,
    befores,
    sequences,
    total,
    longest,
    blocks,
    distances,
    LISTED: tl.constexpr,
    T: tl.constexpr,
    BLOCK: tl.constexpr,
    BEFORE: tl.constexpr,
    BEHIND: tl.constexpr,
    FAR: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """lows, highs [L]: at a block's first token the least and the greatest time of the block. afters, befores, int32:
    each token's seconds from the one and to the other, at most FAR. least [T]: the seconds from which on a bucket or a
    later one is meant. band: position, between numbers for distances that it does not have.
    """
    program = tl.program_id(0)
    if program < sequences * blocks:
        sequence = program // blocks
        first = program % blocks * BLOCK
        begin, length = _row_of(offsets, sequence, total, longest, LISTED)
        if first < length:
            token = first + tl.arange(0, BLOCK)
            time = tl.load(times + begin + tl.minimum(token, length - 1))
            low, high = tl.min(time, 0), tl.max(time, 0)
            tl.store(lows + begin + first, low)
            tl.store(highs + begin + first, high)
            tl.store(afters + begin + token, tl.minimum(time - low, FAR).to(tl.int32), mask=token < length)
            tl.store(befores + begin + token, tl.minimum(high - time, FAR).to(tl.int32), mask=token < length)
    elif program == sequences * blocks:
        bucket = tl.arange(0, T)
        before = tl.zeros([T], tl.int64)  # seconds that are of an earlier bucket, or 0
        thirty_two = tl.arange(0, 32)
        for digit in range(12):
            step = tl.cast(1, tl.int64) << (55 - 5 * digit)
            tried = before[:, None] + step * thirty_two[None, :]
            earlier = (bucket_of(tried, cells) < bucket[:, None]) | (thirty_two == 0)[None, :]
            before += step * (tl.sum(earlier.to(tl.int64), 1) - 1)
        tl.store(least + bucket, before + 1)
    else:
        place = (program - sequences * blocks - 1) * CHUNK + tl.arange(0, CHUNK)
        distance = tl.minimum(tl.maximum(place - BEFORE, 0), distances - 1)
        inside = place < BEFORE + distances + BEHIND
        tl.store(band + place, tl.load(position + distance, mask=inside, other=0.0), mask=inside)


@triton.jit(
    do_not_specialize=["total", "longest", "blocks"],
    do_not_specialize_on_alignment=["cells", "offsets", "lows", "highs", "codes"],
)
def encode(
    cells,
    offsets,
    lows,
    highs,
    codes,
    total,
    longest,
    blocks,
    LISTED: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """codes [sequences, blocks, blocks]: of a block of queries and one of keys, which is not behind it."""
    sequence = tl.program_id(0) // blocks
    query = tl.program_id(0) % blocks
    begin, length = _row_of(offsets, sequence, total, longest, LISTED)
    if query * BLOCK < length:
        low = tl.load(lows + begin + query * BLOCK)
        high = tl.load(highs + begin + query * BLOCK)
        row = codes + (sequence.to(tl.int64) * blocks + query) * blocks
        for start in range(0, query + 1, CHUNK):
            key = start + tl.arange(0, CHUNK)
            inside = key <= query
            first = bucket_of(low - tl.load(highs + begin + key * BLOCK, mask=inside, other=0), cells)
            last = bucket_of(high - tl.load(lows + begin + key * BLOCK, mask=inside, other=0), cells)
            tl.store(row + key, first | ((last - first) << 16), mask=inside)
