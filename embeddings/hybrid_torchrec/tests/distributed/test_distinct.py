"""The distinct ids of a batch, against Python's dict and torch.unique."""

import pytest
import torch
from hybrid_torchrec.hashing import mix64
from hypothesis import given, settings
from hypothesis import strategies as st

WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15  # what csrc/ids/distinct.h mixes into an id


def check(ids: list[int]) -> None:
    distinct, inverse, counts = torch.ops.hybrid_torchrec.distinct(torch.tensor(ids, dtype=torch.int64))
    first = list(dict.fromkeys(ids))
    assert distinct.tolist() == first
    places = {one: place for place, one in enumerate(first)}
    assert inverse.tolist() == [places[one] for one in ids]
    assert int(counts.sum()) == len(ids)
    values, often = torch.unique(torch.tensor(ids, dtype=torch.int64), return_counts=True)
    assert dict(zip(distinct.tolist(), counts.tolist())) == dict(zip(values.tolist(), often.tolist()))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5), max_size=80))
@settings(max_examples=60, deadline=None)
def test_few_ids(ids: list[int]) -> None:
    check(ids)


@pytest.mark.parametrize("names", [1, 100, 10_000, 2**62])
@pytest.mark.parametrize("count", [63, 64, 65, 20_000])
def test_many_ids(count: int, names: int) -> None:
    check(torch.randint(names, (count,), generator=torch.Generator().manual_seed(count)).tolist())


def unmixed(hashed: int) -> int:
    """The id whose hash in the table of distinct ids is `hashed`: SplitMix64's finaliser is a bijection."""

    def unshift(x: int, bits: int) -> int:
        y = x
        for _ in range(64 // bits + 1):
            y = x ^ (y >> bits)
        return y

    x = unshift(hashed, 31)
    x = unshift(x * pow(0x94D049BB133111EB, -1, WORD) % WORD, 27)
    x = unshift(x * pow(0xBF58476D1CE4E5B9, -1, WORD) % WORD, 30)
    return _signed(x ^ GOLDEN)


def _signed(word: int) -> int:
    return word - WORD if word >= WORD // 2 else word


def test_ids_whose_hashes_share_their_upper_half() -> None:
    """An entry of the table has the upper half alone, and these begin their search at one place, too."""
    hashes = [(0x12345678 << 32) | (k << 20) for k in range(40)]
    ids = [unmixed(one) for one in hashes]
    assert mix64(torch.tensor([_signed(one % WORD ^ GOLDEN) for one in ids])).tolist() == hashes
    check(ids * 3)


def test_absent_ids_of_an_index() -> None:
    ids = torch.randint(9_000, (20_000,), generator=torch.Generator().manual_seed(0))
    index = torch.classes.hybrid_torchrec.HashIndex(0)
    admitted, counts = index.admit(ids, torch.full_like(ids, -1), 1, 1, 1.0, 0)
    assert admitted.tolist() == list(dict.fromkeys(ids.tolist()))
    assert torch.equal(counts, torch.bincount(ids)[admitted])
