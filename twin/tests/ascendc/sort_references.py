"""What numpy gives for sorting and for gathering of blocks, and inputs that make sense there."""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")

BYTES = 4096  # of each buffer


def record_type(key: Any) -> Any:
    return np.dtype({"names": ["key", "index"], "formats": [key, "uint32"], "offsets": [0, 4], "itemsize": 8})


def with_sorted_input(call: Any, made: list[Any]) -> list[Any]:
    """Keys with many that are equal, offsets of blocks, and lists of records that are in order."""
    dst, keys, others = made
    r = np.random.default_rng(call.repeat + call.count)
    if call.name == "Gatherb":
        others.view("uint32")[:] = 32 * r.integers(0, BYTES // 32, BYTES // 4)
    elif call.name in ("Sort32", "Sort"):
        keys[:] = r.integers(-9, 9, keys.size)
        keys[::7] += 0.5
    else:
        records = np.zeros(BYTES // 8, record_type(keys.dtype))
        records["key"] = r.integers(-9, 9, records.size)
        records["index"] = r.integers(0, 2**32, records.size)
        if call.name == "MrgSort":
            for first, length, *_ in merged_lists(call):
                part = records[first : first + length]
                part[:] = part[np.argsort(-part["key"].astype("float64"), kind="stable")]
        keys.view("uint8")[:] = records.view("uint8")
    return [dst, keys, others]


def merged_lists(call: Any) -> list[tuple[int, int, int]]:
    """First record and length of each list, and its repeat."""
    lengths = [*call.dst, *call.left]
    if call.repeat > 1:
        each = lengths[0]
        return [((4 * repeat + i) * each, each, repeat) for repeat in range(call.repeat) for i in range(4)]
    return [(BYTES // 32 * i, lengths[i], 0) for i in range({3: 2, 7: 3, 15: 4}[call.count])]


def sorted_records(call: Any, d: Any, a: Any, b: Any) -> Any:
    out, count = d.copy(), 32 * call.repeat
    group = count if call.name == "Sort" and call.extra else 32
    records = np.zeros(count, record_type(a.dtype))
    records["key"], records["index"] = a[:count], b.view("uint32")[:count]
    for first in range(0, count, group):
        part = records[first : first + group]
        part[:] = part[np.argsort(-part["key"].astype("float64"), kind="stable")]
    out.view("uint8")[: 8 * count] = records.view("uint8")
    return out


def merged_records(call: Any, d: Any, a: Any, b: Any) -> Any:
    out = d.copy()
    records, target = a.view("uint8").view(record_type(a.dtype)), out.view("uint64")
    lists, done, taken = merged_lists(call), 0, [0, 0, 0, 0]
    for repeat in range(call.repeat):
        mine = [(first, length) for first, length, of in lists if of == repeat]
        owner = np.concatenate([np.full(length, i) for i, (_, length) in enumerate(mine)])
        every = np.concatenate([records[first : first + length] for first, length in mine])
        order = np.argsort(-every["key"].astype("float64"), kind="stable")
        owner = owner[order]
        last = order.size
        if call.scalar:  # up to the end of the list that ends first
            last = min(int(np.flatnonzero(owner == i)[-1]) + 1 for i in range(len(mine)))
        whole = np.concatenate([a.view("uint64")[first : first + length] for first, length in mine])
        target[done : done + last] = whole[order][:last]
        done += last
        taken = [int((owner[:last] == i).sum()) for i in range(4)]
    words = out.view("uint32")
    for i, count in enumerate(taken):
        words[call.extra + 8 * i : call.extra + 8 * i + 8] = count
    return out


def extracted(call: Any, d: Any, a: Any, b: Any) -> Any:
    out, count = d.copy(), 32 * call.repeat
    records = a.view("uint8").view(record_type(a.dtype))[:count]
    out[:count] = records["key"]
    out.view("uint32")[BYTES // 8 : BYTES // 8 + count] = records["index"]
    return out


def gathered_blocks(call: Any, d: Any, a: Any, b: Any) -> Any:
    out, per = d.copy(), 32 // d.itemsize
    for i in range(8 * call.repeat):
        start = (i // 8 * call.dst[1] + i % 8 * call.dst[0]) * per
        source = int(b.view("uint32")[i]) // d.itemsize
        out[start : start + per] = a[source : source + per]
    return out


SORTS = {
    "Sort32": sorted_records,
    "Sort": sorted_records,
    "MrgSort": merged_records,
    "Extract": extracted,
    "Gatherb": gathered_blocks,
}
