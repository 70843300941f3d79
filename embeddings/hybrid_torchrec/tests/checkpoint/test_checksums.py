"""Checksums of files, and copies of rows that lie side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hybrid_torchrec.checkpoint.files import Checksum, checksum_of_file
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.table import HashTable, RowBatch, TableConfig
from hypothesis import given, settings
from hypothesis import strategies as st

KNOWN = {  # of the xxHash project, seed 0
    b"": "ef46db3751d8e999",
    b"a": "d24ec4f1a98c6e5b",
    b"abc": "44bc2cf5ad770999",
    b"Nobody inspects the spammish repetition": "fbcea83c8a378bf1",
}


def reference(data: bytes) -> str:
    """XXH64 as the specification words it, in Python's integers."""
    mask = 2**64 - 1
    primes = (
        11400714785074694791,
        14029467366897019727,
        1609587929392839161,
        9650029242287828579,
        2870177450012600261,
    )
    one, two, three, four, five = primes

    def rotate(value: int, bits: int) -> int:
        value &= mask
        return (value << bits | value >> (64 - bits)) & mask

    def turn(lane: int, word: int) -> int:
        return rotate(lane + word * two, 31) * one & mask

    lanes, at = [one + two & mask, two, 0, -one & mask], 0
    while at + 32 <= len(data):
        for k in range(4):
            lanes[k] = turn(lanes[k], int.from_bytes(data[at + 8 * k : at + 8 * k + 8], "little"))
        at += 32
    value = five
    if len(data) >= 32:
        value = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18)))
        for lane in lanes:
            value = ((value ^ turn(0, lane)) * one + four) & mask
    value = value + len(data) & mask
    while at + 8 <= len(data):
        value = rotate(value ^ turn(0, int.from_bytes(data[at : at + 8], "little")), 27) * one + four & mask
        at += 8
    if at + 4 <= len(data):
        value = rotate(value ^ int.from_bytes(data[at : at + 4], "little") * one, 23) * two + three & mask
        at += 4
    for byte in data[at:]:
        value = rotate(value ^ byte * five, 11) * one & mask
    value = (value ^ value >> 33) * two & mask
    value = (value ^ value >> 29) * three & mask
    return f"{value ^ value >> 32:016x}"


@pytest.mark.parametrize("data", KNOWN)
def test_published_values(data: bytes) -> None:
    checksum = Checksum()
    checksum.update(data)
    assert checksum.hexdigest() == KNOWN[data] == reference(data)


@given(st.lists(st.binary(max_size=90), max_size=6))
@settings(max_examples=60, deadline=None)
def test_pieces_are_their_sum(pieces: list[bytes]) -> None:
    checksum = Checksum()
    for piece in pieces:
        checksum.update(memoryview(piece))
    assert checksum.hexdigest() == reference(b"".join(pieces))


def test_of_a_file(tmp_path: Path) -> None:
    data = torch.randint(0, 256, (1_300_000,), dtype=torch.uint8).numpy().tobytes()  # more than a block
    (tmp_path / "file").write_bytes(data)
    checksum = Checksum()
    checksum.update(data)
    assert checksum_of_file(tmp_path / "file") == checksum.hexdigest()
    (tmp_path / "file").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert checksum_of_file(tmp_path / "file") != checksum.hexdigest()


@pytest.mark.parametrize("erased", [(), (3,), (0, 1, 2), (9,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rows_side_by_side_and_not(erased: tuple[int, ...], dtype: torch.dtype) -> None:
    """New rows of a fresh table lie in consecutive slots; after an erasure they take freed ones."""
    config = TableConfig(name="item", dim=3, dtype=dtype, optimizer=OptimizerSpec(kind="adam"))
    table = HashTable(config)
    rows = RowBatch(
        ids=torch.arange(10) * 7,
        weights=torch.randn(10, 3).to(dtype),
        state={"momentum1": torch.randn(10, 3), "momentum2": torch.rand(10, 3)},
        shows=torch.rand(10),
        clicks=torch.rand(10),
        last_step=torch.arange(10),
    )
    table.write(rows)
    if erased:
        gone = rows.ids[list(erased)]
        assert table.erase(gone) == len(erased)
        table.write(rows.select(torch.isin(rows.ids, gone)))
    more = RowBatch.from_named_tensors({**rows.named_tensors(), "ids": rows.ids + 1})
    table.write(more)
    for expected in (rows, more):
        for order in (torch.arange(10), torch.tensor([9, 8, 7]), torch.tensor([0, 2, 1, 3]), torch.tensor([4, 5, 6])):
            wanted = expected.select(order)
            found, there = table.read(wanted.ids)
            assert bool(there.all())
            for name, tensor in wanted.named_tensors().items():
                assert torch.equal(found.named_tensors()[name], tensor), name
