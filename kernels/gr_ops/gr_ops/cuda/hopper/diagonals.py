"""The tables' gradients: the position's from the blocks of 8 x 8 that the backward pass adds up, one for each diagonal
of blocks (table_sums.py), the time's from the sums of its programs. Plain Triton.

of_blocks [copies, pairs, 8 rows, 4, 2, 2]: of a pair of neighbouring diagonals of blocks a thread's numbers side by
side, two columns of the one and two of the other. Before the pair of distance 0 there are BEFORE, whose last number is
of the diagonal of blocks that the pair begins with, FIRST before the one of distance 0.
"""

from __future__ import annotations

import triton
import triton.language as tl

BEFORE = 8  # pairs that only keys behind a tile's first query have: 128 keys
BEHIND = 16
FIRST = 3  # diagonals of blocks of 32 keys before that of distance 0
NUMBERS = 128  # of a pair
DISTANCES = 128  # of a program
ROWS = 32  # of sums for time, at a time


def pairs_of(longest: int) -> int:
    return BEFORE + triton.cdiv(longest, 16) + BEHIND


@triton.jit(
    do_not_specialize=["pairs", "distances", "programs", "buckets", "key_scale"],
    do_not_specialize_on_alignment=["of_blocks", "of_position", "of_time", "out", "time_out"],
)
def add_diagonals(
    of_blocks,
    of_position,
    of_time,
    out,
    time_out,
    pairs,
    distances,
    programs,
    buckets,
    key_scale,
    SCATTERED: tl.constexpr,
    COPIES: tl.constexpr,
    BEFORE: tl.constexpr,
    FIRST: tl.constexpr,
    NUMBERS: tl.constexpr,
    DISTANCES: tl.constexpr,
    T: tl.constexpr,
    ROWS: tl.constexpr,
):
    """out [distances]: the sums over copies and diagonals of_blocks, times key_scale, and if SCATTERED those of
    of_position [COPIES, distances]. time_out [buckets]: those of_time [programs, buckets], by the last program."""
    if tl.program_id(0) * DISTANCES < distances:
        distance = tl.program_id(0) * DISTANCES + tl.arange(0, DISTANCES)
        row = tl.arange(0, 8)
        number = (distance + 8 * (2 * BEFORE + FIRST))[None, :] + row[:, None]
        block, column = number // 8, number % 8
        pair = block // 2
        place = pair * NUMBERS + row[:, None] * 16 + column // 2 * 4 + block % 2 * 2 + column % 2
        there = (pair < pairs) & (distance < distances)[None, :]
        found = tl.zeros([8, DISTANCES], tl.float32)
        for copy in tl.static_range(COPIES):
            found += tl.load(of_blocks + copy * pairs * NUMBERS + place, mask=there, other=0.0)
        total = tl.sum(found, 0) * key_scale
        if SCATTERED:
            for copy in tl.static_range(COPIES):
                total += tl.load(of_position + copy * distances + distance, mask=distance < distances, other=0.0)
        tl.store(out + distance, total, mask=distance < distances)
    else:
        bucket = tl.arange(0, T)
        of_bucket = tl.zeros([ROWS, T], tl.float32)
        for start in range(0, programs, ROWS):
            program = start + tl.arange(0, ROWS)
            there = (program < programs)[:, None] & (bucket < buckets)[None, :]
            of_bucket += tl.load(of_time + program[:, None] * buckets + bucket[None, :], mask=there, other=0.0)
        tl.store(time_out + bucket, tl.sum(of_bucket, 0), mask=bucket < buckets)
