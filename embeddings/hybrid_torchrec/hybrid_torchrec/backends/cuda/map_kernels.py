"""Ids to slots in device memory.

A hash map with open addressing and linear probing: an array of buckets of one (key, slot) each, 16 bytes, which is
searched from an id's home bucket on. Keys are put by compare-and-swap and stay until the map is rehashed; a key without
a row has a negative slot. Insertion takes several launches, and the first occurrence of each new id gets the next slot:
the same slots in every run, and those of the CPU's table. The ends of the launches are the barriers: atomic operations
need no order among themselves, and are relaxed.
"""

import triton
import triton.language as tl

from hybrid_torchrec.backends.cuda.layout import (
    ABSENT,
    AGAIN,
    BUCKETS,
    COUNTERS,
    EMPTY,
    FREE,
    FREED,
    HITS,
    ID,
    INSERTED,
    KEYS,
    LAST,
    LIVE,
    MASK,
    NEW,
    NEXT,
    PARTS,
    SHOWS,
    VERSION,
    element_range,
    home_bucket,
    int64_pointer,
    records,
)

BLOCK = 128
ALLOCATION_BLOCK = 512  # ids of a program that counts or places new ones


@triton.jit(do_not_specialize=["count"])
def find(
    ids,
    slots,
    parts,
    starts,
    count,
    COUNT_HITS: tl.constexpr,
    CLAMP: tl.constexpr,
    GROUPED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """slots[i] of ids[i]; absent: -1, or 0 with CLAMP."""
    table = tl.program_id(1)
    first, end = element_range(starts, count, table, GROUPED)
    at = first + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < end
    if tl.program_id(0).to(tl.int64) * BLOCK < end - first:
        buckets = int64_pointer(parts, table, BUCKETS)
        mask = tl.load(parts + table * PARTS + MASK)
        wanted = tl.load(ids + at, mask=inside, other=0)
        bucket = home_bucket(wanted, mask)
        slot = tl.full((BLOCK,), -1, tl.int64)
        searching = inside
        while tl.max(searching.to(tl.int32), 0) > 0:
            key = tl.load(buckets + 2 * bucket, mask=searching, other=EMPTY)
            there = tl.load(buckets + 2 * bucket + 1, mask=searching, other=ABSENT)
            slot = tl.where(searching & (key == wanted), there, slot)
            searching = searching & (key != wanted) & (key != EMPTY)
            bucket = (bucket + 1) & mask
        found = inside & (slot >= 0)
        if COUNT_HITS:
            tl.atomic_add(int64_pointer(parts, table, COUNTERS) + HITS, tl.sum(found.to(tl.int64), 0), sem="relaxed")
        tl.store(slots + at, tl.where(found, slot, 0 if CLAMP else -1), mask=inside)


@triton.jit(do_not_specialize=["count"])
def find_or_insert(
    ids,
    slots,
    absent_counts,
    parts,
    starts,
    count,
    COUNT_HITS: tl.constexpr,
    GROUPED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """slots[i] of ids[i]; absent_counts (T,): counts occurrences of ids without a row.

    An id without a row gets a key, slots[i] = -2 - bucket, and the bucket's slot becomes that of the first occurrence:
    the least of the numbers i - 2^62.
    """
    table = tl.program_id(1)
    first, end = element_range(starts, count, table, GROUPED)
    at = first + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < end
    if tl.program_id(0).to(tl.int64) * BLOCK < end - first:
        buckets = int64_pointer(parts, table, BUCKETS)
        counters = int64_pointer(parts, table, COUNTERS)
        mask = tl.load(parts + table * PARTS + MASK)
        wanted = tl.load(ids + at, mask=inside, other=0)
        bucket = home_bucket(wanted, mask)
        slot = tl.full((BLOCK,), -1, tl.int64)
        place = tl.zeros((BLOCK,), tl.int64)
        searching = inside
        put = tl.zeros((BLOCK,), tl.int64)
        while tl.max(searching.to(tl.int32), 0) > 0:
            key = tl.load(buckets + 2 * bucket, mask=searching, other=0)
            there = tl.load(buckets + 2 * bucket + 1, mask=searching, other=ABSENT)
            vacant = searching & (key == EMPTY) & (wanted != EMPTY)
            if tl.max(vacant.to(tl.int32), 0) > 0:
                # Swaps have no mask: lanes that do not want one swap nothing in a word of their own.
                target = tl.where(vacant, buckets + 2 * bucket, slots + at)
                empty = tl.where(vacant, EMPTY, 0).to(tl.int64)
                before = tl.atomic_cas(target, empty, tl.where(vacant, wanted, 0), sem="relaxed")
                won = vacant & (before == EMPTY)
                put += won.to(tl.int64)
                key = tl.where(vacant, tl.where(won, wanted, before), key)
                there = tl.where(vacant, ABSENT, there)
            here = searching & (key == wanted)
            slot = tl.where(here, there, slot)
            place = tl.where(here, bucket, place)
            searching = searching & (key != wanted)
            bucket = (bucket + 1) & mask
        found = inside & (slot >= 0)
        absent = inside & (slot < 0)
        lacking = tl.sum(absent.to(tl.int32), 0)
        if lacking > 0:
            tl.atomic_min(buckets + 2 * place + 1, at - 2**62, mask=absent, sem="relaxed")
            tl.atomic_add(counters + KEYS, tl.sum(put, 0), sem="relaxed")
            tl.atomic_add(absent_counts + table, lacking, sem="relaxed")
        if COUNT_HITS:
            tl.atomic_add(counters + HITS, tl.sum(found.to(tl.int64), 0), sem="relaxed")
        tl.store(slots + at, tl.where(found, slot, -2 - place), mask=inside)


@triton.jit
def _first_occurrence(slot, at, buckets):
    """Which are the first occurrences of ids without a row; slots as `find_or_insert` left them."""
    absent = slot < 0
    claimed = tl.load(buckets + 2 * (-2 - slot) + 1, mask=absent, other=0)
    return absent & (claimed == at - 2**62)


@triton.jit(do_not_specialize=["count"])
def count_new(slots, sums, absent_counts, parts, starts, count, GROUPED: tl.constexpr, BLOCK: tl.constexpr):
    """sums (T, programs) int32, zeros before: new ids of each program of a table."""
    table = tl.program_id(1)
    first, end = element_range(starts, count, table, GROUPED)
    begin = first + tl.program_id(0).to(tl.int64) * BLOCK
    if (begin < end) & (tl.load(absent_counts + table) > 0):
        at = begin + tl.arange(0, BLOCK)
        slot = tl.load(slots + at, mask=at < end, other=0)
        new = _first_occurrence(slot, at, int64_pointer(parts, table, BUCKETS))
        tl.store(sums + table * tl.num_programs(0) + tl.program_id(0), tl.sum(new.to(tl.int32), 0))


@triton.jit(do_not_specialize=["count", "step", "version"])
def allocate_slots(
    ids,
    slots,
    sums,
    new_ids,
    new_slots,
    parts,
    starts,
    count,
    step,
    version,
    GROUPED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Slots of new ids: freed ones, the latest first, then those never used.

    new_ids, new_slots: of the table's n-th new row at place n behind the table's first element.
    """
    table = tl.program_id(1)
    first, end = element_range(starts, count, table, GROUPED)
    begin = first + tl.program_id(0).to(tl.int64) * BLOCK
    mine = sums + table * tl.num_programs(0)
    if tl.load(mine + tl.program_id(0)) > 0:
        at = begin + tl.arange(0, BLOCK)
        slot = tl.load(slots + at, mask=at < end, other=0)
        buckets = int64_pointer(parts, table, BUCKETS)
        new = _first_occurrence(slot, at, buckets)
        before = tl.zeros((BLOCK,), tl.int32)
        for start in range(0, tl.program_id(0), BLOCK):
            earlier = start + tl.arange(0, BLOCK)
            before += tl.load(mine + earlier, mask=earlier < tl.program_id(0), other=0)
        rank = (tl.sum(before, 0) + tl.cumsum(new.to(tl.int32), 0) - 1).to(tl.int64)
        counters = int64_pointer(parts, table, COUNTERS)
        freed = tl.load(counters + FREED)
        again = new & (rank < freed)
        taken = tl.load(counters + NEXT) + rank - freed
        taken = tl.where(
            again, tl.load(int64_pointer(parts, table, FREE) + freed - 1 - rank, mask=again, other=0), taken
        )
        id = tl.load(ids + at, mask=new, other=0)
        tl.store(buckets + 2 * (-2 - slot) + 1, taken, mask=new)
        nothing = tl.zeros((BLOCK,), tl.int64)  # also of shows and clicks
        tl.store(records(parts, table, taken, ID), id, mask=new)
        tl.store(records(parts, table, taken, SHOWS), nothing, mask=new)
        tl.store(records(parts, table, taken, LAST), nothing + step, mask=new)
        tl.store(records(parts, table, taken, VERSION), nothing + version, mask=new)
        tl.store(new_ids + first + rank, id, mask=new)
        tl.store(new_slots + first + rank, taken, mask=new)


@triton.jit(do_not_specialize=["count", "bits"])
def resolve_slots(
    slots, keys, sums, absent_counts, parts, starts, count, bits, GROUPED: tl.constexpr, BLOCK: tl.constexpr
):
    """slots[i] of ids that were new; keys[i] of all (sorted_slots.py); the table's counters."""
    table = tl.program_id(1)
    first, end = element_range(starts, count, table, GROUPED)
    begin = first + tl.program_id(0).to(tl.int64) * BLOCK
    lacking = tl.load(absent_counts + table)
    if begin < end:
        at = begin + tl.arange(0, BLOCK)
        slot = tl.load(slots + at, mask=at < end, other=0)
        absent = slot < 0
        placed = tl.load(int64_pointer(parts, table, BUCKETS) + 2 * (-2 - slot) + 1, mask=absent, other=0)
        tl.store(slots + at, placed, mask=absent)
        key = (tl.zeros((), tl.int64) + table << bits) + tl.where(absent, placed, slot)
        tl.store(keys + at, key.to(keys.dtype.element_ty), mask=at < end)
    if tl.program_id(0) == 0:
        counters = int64_pointer(parts, table, COUNTERS)
        counts = tl.zeros((BLOCK,), tl.int64)
        if lacking > 0:
            for start in range(0, tl.num_programs(0), BLOCK):
                each = start + tl.arange(0, BLOCK)
                inside = each < tl.num_programs(0)
                counts += tl.load(sums + table * tl.num_programs(0) + each, mask=inside, other=0)
        new = tl.sum(counts, 0)
        freed = tl.load(counters + FREED)
        again = tl.minimum(new, freed)
        tl.store(counters + NEW, new)
        tl.store(counters + AGAIN, again)
        tl.store(counters + FREED, freed - again)
        tl.store(counters + NEXT, tl.load(counters + NEXT) + new - again)
        tl.store(counters + LIVE, tl.load(counters + LIVE) + new)
        tl.store(counters + INSERTED, tl.load(counters + INSERTED) + new)


@triton.jit(do_not_specialize=["count"])
def set_buckets(ids, values, parts, count, BLOCK: tl.constexpr):
    """The buckets of ids, whose keys are in the map, get the slots `values`."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    buckets = int64_pointer(parts, 0, BUCKETS)
    mask = tl.load(parts + MASK)
    wanted = tl.load(ids + at, mask=inside, other=0)
    bucket = home_bucket(wanted, mask)
    searching = inside
    while tl.max(searching.to(tl.int32), 0) > 0:
        key = tl.load(buckets + 2 * bucket, mask=searching, other=0)
        here = searching & (key == wanted)
        value = tl.load(values + at, mask=here, other=0)
        tl.store(buckets + 2 * bucket + 1, value, mask=here)
        searching = searching & (key != wanted) & (key != EMPTY)
        bucket = (bucket + 1) & mask


@triton.jit(do_not_specialize=["mask", "old_count"])
def rehash(old, old_count, buckets, mask, moved, BLOCK: tl.constexpr):
    """Puts the keys with rows of the buckets `old` into empty `buckets` of another number; moved: their count."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < old_count
    id = tl.load(old + 2 * at, mask=inside, other=0)
    slot = tl.load(old + 2 * at + 1, mask=inside, other=ABSENT)
    live = inside & (slot >= 0)
    bucket = home_bucket(id, mask)
    # The id that looks like an empty bucket needs no search.
    tl.store(buckets + 2 * bucket + 1, slot, mask=live & (id == EMPTY))
    searching = live & (id != EMPTY)
    while tl.max(searching.to(tl.int32), 0) > 0:
        target = tl.where(searching, buckets + 2 * bucket, old + 2 * at)
        empty = tl.where(searching, EMPTY, 0).to(tl.int64)
        before = tl.atomic_cas(target, empty, tl.where(searching, id, 0), sem="relaxed")
        won = searching & (before == EMPTY)
        tl.store(buckets + 2 * bucket + 1, slot, mask=won)
        searching = searching & (before != EMPTY)
        bucket = (bucket + 1) & mask
    tl.atomic_add(moved, tl.sum(live.to(tl.int64), 0), sem="relaxed")
