"""Counting how often rows were seen, from the sorted slots of a batch."""

import triton
import triton.language as tl

from hybrid_torchrec.backends.cuda.layout import LAST, PARTS, RECORD, RECORDS, SHOWS


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit(do_not_specialize=["count", "bits", "step"])
def count_runs(keys, parts, count, bits, step, BLOCK: tl.constexpr):
    """A sighting of each row for each of its keys (sorted_slots.py).

    One addition for a run of equal keys: additions to the row of a frequent id wait for each other.
    """
    lane = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * BLOCK + lane
    inside = at < count
    key = tl.load(keys + at, mask=inside, other=-1).to(tl.int64)
    before = tl.load(keys + at - 1, mask=inside & (at > 0), other=-1).to(tl.int64)
    after = tl.load(keys + at + 1, mask=at + 1 < count, other=-1).to(tl.int64)
    begin = tl.associative_scan(tl.where((lane == 0) | (key != before), lane, 0), 0, _larger)
    slot = key & ((tl.full((1,), 1, tl.int64) << bits) - 1)
    table = key >> bits
    ends = inside & ((key != after) | (lane == BLOCK - 1)) & (key >= 0) & (slot > 0)
    record = tl.load(parts + table * PARTS + RECORDS, mask=ends, other=0) + 8 * RECORD * slot
    shows = (record + 8 * SHOWS).to(tl.pointer_type(tl.float32))
    last = (record + 8 * LAST).to(tl.pointer_type(tl.int64))
    tl.atomic_add(shows, (lane - begin + 1).to(tl.float32), mask=ends, sem="relaxed")
    tl.atomic_max(last, tl.zeros((BLOCK,), tl.int64) + step, mask=ends, sem="relaxed")
