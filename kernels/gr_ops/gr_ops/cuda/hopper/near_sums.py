"""The gradient of time of the tiles at the diagonal, which the backward pass has written down (table_sums.py): their
buckets, a dozen and more, are looked up once for all heads. Plain Triton."""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.hopper.tile_ranges import row_of
from gr_ops.cuda.hopper.times import bucket_of
from gr_ops.cuda.mask import visible_queries

COPIES = 16  # of the sums for positions, which all programs of the backward pass add to
TOGETHER = 8  # buckets that a program sums at a time


@triton.jit(
    do_not_specialize=["total", "longest", "blocks", "group", "key_scale", "copies", "buckets"],
    do_not_specialize_on_alignment=["of_near", "of_time", "times", "cells", "codes", "offsets", "contexts", "targets"],
)
def add_near(
    of_near,
    of_time,
    times,
    cells,
    codes,
    offsets,
    contexts,
    targets,
    total,
    longest,
    blocks,
    group,
    key_scale,
    copies,
    buckets,
    LISTED: tl.constexpr,
    HEADS: tl.constexpr,
    SEGMENTS: tl.constexpr,
    BLOCK: tl.constexpr,
    DIAGONALS: tl.constexpr,
    KEYS: tl.constexpr,
    FIRST: tl.constexpr,
    AROUND: tl.constexpr,
    TOGETHER: tl.constexpr,
):
    """of_near [HEADS, total, DIAGONALS, BLOCK] of keys and the queries of their own block and those behind, as far as
    the backward pass with KEYS a program has visited them. Adds to of_time [copies, buckets], float32."""
    sequence = tl.program_id(0) // blocks
    block = tl.program_id(0) % blocks
    begin, length, context, history = row_of(offsets, contexts, targets, sequence, total, longest, SEGMENTS)
    if not LISTED:
        begin = sequence * longest
        length = longest
        if not SEGMENTS:
            history = length
    first = block * BLOCK
    if first < length:
        key = first + tl.arange(0, BLOCK)
        start = first // KEYS * KEYS
        last = tl.minimum(start + KEYS, length) - 1
        _, _, _, stop = visible_queries(start, last, length, context, history, group, 0, 0, 0, SEGMENTS, 0, BLOCK)
        out = of_time + tl.program_id(0) % copies * buckets
        diagonal = tl.program_id(1)
        at = first + diagonal * BLOCK
        if at < stop:
            code = tl.load(codes + (sequence.to(tl.int64) * blocks + block) * (AROUND + blocks) + FIRST + at // BLOCK)
            lowest = (code >> 32).to(tl.int32) & 65535
            more = (code >> 48).to(tl.int32) & 32767
            of_score = tl.zeros([BLOCK, BLOCK], tl.float32)
            for head in tl.static_range(HEADS):
                row = head * total.to(tl.int64) + begin + key
                place = of_near + ((row * DIAGONALS + diagonal)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :])
                place = tl.multiple_of(place, [16, 16])
                of_score += tl.load(place, mask=(key < length)[:, None], other=0.0).to(tl.float32)
            of_cell = tl.reshape(of_score * key_scale, [BLOCK * BLOCK])
            if more == 0:
                tl.atomic_add(out + lowest, tl.sum(of_cell, 0), sem="relaxed")
            else:
                of_key = tl.load(times + begin + tl.minimum(key, length - 1))
                of_query = tl.load(times + begin + tl.minimum(at + tl.arange(0, BLOCK), length - 1))
                bucket = bucket_of(of_query[None, :] - of_key[:, None], cells)
                bucket_of_cell = tl.reshape(bucket, [BLOCK * BLOCK])
                for number in range(lowest, lowest + more + 1, TOGETHER):
                    numbers = number + tl.arange(0, TOGETHER)
                    of_bucket = tl.where(bucket_of_cell[None, :] == numbers[:, None], of_cell[None, :], 0.0)
                    there = numbers <= lowest + more
                    tl.atomic_add(out + numbers, tl.sum(of_bucket, 1), mask=there, sem="relaxed")
