"""The sequential algorithm of bounds_check_indices (docs/operators.md)."""

from __future__ import annotations

NOTHING, LAST_OFFSET, FIRST_OFFSET, OFFSETS, INDEX = range(5)


def repair(rows, indices, offsets, bags):
    """Repaired indices and offsets, the number of violations, the first (kind, table, batch, a, b)."""
    indices, offsets, n = list(indices), list(offsets), len(indices)
    found = []
    if offsets[-1] != n:
        found.append((LAST_OFFSET, 0, 0, offsets[-1], 0))
        offsets[-1] = n
    for table in range(len(rows)):
        for bag in range(bags[table], bags[table + 1]):
            start, end = offsets[bag], offsets[bag + 1]
            if start < 0 or start > end or end > n:
                found.append((OFFSETS, table, bag - bags[table], start, end))
                start = min(max(start, 0), n)
                offsets[bag], offsets[bag + 1] = start, min(max(end, start), n)
    wrong = []
    for table, limit in enumerate(rows):
        for bag in range(bags[table], bags[table + 1]):
            for i in range(offsets[bag], offsets[bag + 1]):
                if indices[i] != -1 and not 0 <= indices[i] < limit:
                    wrong.append((INDEX, table, bag - bags[table], i, indices[i]))
                    indices[i] = 0
    return indices, offsets, found, wrong
