"""Layout of a table in device memory, and device functions that all kernels share; hashing as in csrc/common/mix.h."""

import triton
import triton.language as tl

# A row of the tensor `parts` (T, PARTS) int64 for each table: addresses of device memory, and sizes.
BUCKETS, MASK, RECORDS, FREE, COUNTERS = (tl.constexpr(i) for i in range(5))
WEIGHTS, FIRST_MOMENT, SECOND_MOMENT, SEED = (tl.constexpr(i) for i in range(5, 9))
PARTS = tl.constexpr(9)

# What is known of a slot: RECORD words of 8 bytes, which a GPU's memory moves at once. Shows and clicks share one.
RECORD = tl.constexpr(4)
ID, SHOWS, LAST, VERSION = (tl.constexpr(i) for i in range(4))

# A table's counters, int64.
LIVE = tl.constexpr(0)  # rows
NEXT = tl.constexpr(1)  # the first slot that was never in use
FREED = tl.constexpr(2)  # slots in the list of free ones
KEYS = tl.constexpr(3)  # buckets of the map that have a key, with or without a slot
NEW = tl.constexpr(4)  # rows of the last insertion
INSERTED = tl.constexpr(5)  # rows of all insertions
HITS = tl.constexpr(6)  # ids that had a row when they were assigned
AGAIN = tl.constexpr(7)  # of the last insertion's rows, the first AGAIN have slots that were freed
COUNTER_WORDS = 8

# The key of an empty bucket; the id of this value has a bucket of its own, behind the others.
EMPTY = tl.constexpr(-(2**63))
ABSENT = tl.constexpr(-1)  # the slot of a key without a row
FREE_STEP = tl.constexpr(-(2**63))  # last step of a slot without a row


def constants(*names: str) -> tuple[int, ...]:
    """The numbers above by their names, for code outside of kernels."""
    return tuple(globals()[name].value for name in names)


@triton.jit
def mix64(x):
    """x uint64; SplitMix64's finaliser."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def mix_pair(a, b):
    """Two uint64; depends on their order."""
    return mix64(mix64(a + 0x9E3779B97F4A7C15) ^ (b + 0x9E3779B97F4A7C15))


@triton.jit
def home_bucket(ids, mask):
    """The bucket at which the search of an id begins; mask: buckets - 1, of a power of two."""
    hashed = mix64(ids.to(tl.uint64, bitcast=True) + 0x9E3779B97F4A7C15)
    bucket = (hashed >> 20).to(tl.int64, bitcast=True) & mask
    return tl.where(ids == EMPTY, mask + 1, bucket)


@triton.jit
def int64_pointer(parts, table, which: tl.constexpr):
    """A table's part as a pointer to int64."""
    return tl.load(parts + table * PARTS + which).to(tl.pointer_type(tl.int64))


@triton.jit
def records(parts, table, slots, word: tl.constexpr):
    """Pointers to a word of slots' records."""
    return int64_pointer(parts, table, RECORDS) + slots * RECORD + word


@triton.jit
def rows(parts, table, DTYPE: tl.constexpr):
    """A table's rows as a pointer; aligned for wide loads."""
    return tl.multiple_of(tl.load(parts + table * PARTS + WEIGHTS).to(tl.pointer_type(DTYPE)), 16)


@triton.jit
def moments(parts, table, which: tl.constexpr):
    return tl.multiple_of(tl.load(parts + table * PARTS + which).to(tl.pointer_type(tl.float32)), 16)


@triton.jit
def element_range(starts, count, table, GROUPED: tl.constexpr):
    """[first, end) of a table's elements; one table has all of them."""
    if GROUPED:
        first = tl.load(starts + table)
        end = tl.load(starts + table + 1)
    else:
        first = tl.zeros((), tl.int64)
        end = first + count
    return first, end
