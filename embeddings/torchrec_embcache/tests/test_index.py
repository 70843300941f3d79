"""Checksums, sets of ids."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchrec_embcache.native import IdCounts, crc32c, distinct

IDS = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)


def test_crc32c_of_the_rfc() -> None:
    """RFC 3720, B.4, and the check value of the polynomial."""
    known = {
        bytes(32): 0x8A9136AA,
        bytes([255] * 32): 0x62A8AB43,
        bytes(range(32)): 0x46DD794E,
        b"123456789": 0xE3069283,
    }
    for data, crc in known.items():
        assert crc32c(data) == crc32c(data, portable=True) == crc


@given(st.binary(max_size=200))
@settings(max_examples=50, deadline=None)
def test_crc32c_in_software_is_the_processor_s(data: bytes) -> None:
    assert crc32c(data) == crc32c(data, portable=True)


@given(st.lists(IDS, max_size=300))
@settings(max_examples=50, deadline=None)
def test_distinct_keeps_the_order(ids: list[int]) -> None:
    assert distinct(torch.tensor(ids, dtype=torch.int64)).tolist() == list(dict.fromkeys(ids))


@given(st.lists(st.tuples(st.booleans(), st.sets(IDS, max_size=40)), max_size=40))
@settings(max_examples=50, deadline=None)
def test_counts_are_those_of_a_dict(steps: list[tuple[bool, set[int]]]) -> None:
    counts, model = IdCounts(), dict[int, int]()
    for more, ids in steps:
        tensor = torch.tensor(sorted(ids), dtype=torch.int64)
        if more:
            counts.add(tensor)
            for one in ids:
                model[one] = model.get(one, 0) + 1
        else:
            counts.remove(tensor)
            for one in ids & model.keys():
                model[one] -= 1
                if not model[one]:
                    del model[one]
        assert len(counts) == len(model)
        asked = torch.tensor(sorted(ids | model.keys()), dtype=torch.int64)
        assert counts.contains(asked).tolist() == [one in model for one in asked.tolist()]


def test_counts_of_many_ids() -> None:
    """Growth, and gaps that close around the end of the memory."""
    counts = IdCounts()
    ids = torch.randint(-(2**63), 2**63 - 1, (50_000,), generator=torch.Generator().manual_seed(0)).unique()
    counts.add(ids)
    for part in ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(1))].split(997):
        assert bool(counts.contains(part).all())
        counts.remove(part)
        assert not bool(counts.contains(part).any())
    assert len(counts) == 0


def test_counts_of_a_window_of_ids() -> None:
    """Ids come, go and come again, so that gaps close and are taken again."""
    counts = IdCounts()
    for first in (*range(0, 40_000, 500), *range(0, 20_000, 300)):
        window = torch.arange(first, first + 3000)
        counts.add(window)
        counts.add(window[:100])
        assert len(counts) == 3000
        assert bool(counts.contains(window).all())
        assert not bool(counts.contains(torch.cat([window + 3000, window - 3000])).any())
        counts.remove(window)
        assert len(counts) == 100
        assert counts.contains(window).tolist() == [True] * 100 + [False] * 2900
        counts.remove(window)
        assert len(counts) == 0
