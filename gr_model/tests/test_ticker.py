"""Long work says how far it is, by a clock that jumps: every look at it is seconds later."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from gr_model import data
from gr_model.common import ticker
from gr_model.config import DataConfig
from gr_model.runtime.world import World
from gr_model.tests import own_files


def clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    times = itertools.count(0.0, seconds)
    monkeypatch.setattr(ticker.time, "monotonic", lambda: next(times))


def test_a_line_in_ten_seconds_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    clock(monkeypatch, 4.0)
    said: list[str] = []
    tick = ticker.Ticker(said.append)
    for number in range(1, 8):  # at 4, 8, ... 28 s
        tick(f"{number}")
    assert said == ["3", "6"]


def test_every_phase_of_a_file_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = own_files.rows(users=5, items=7, count=40)
    path = own_files.write(tmp_path / "mine.csv", table)
    users = len(own_files.histories(table))
    size, half = path.stat().st_size, path.stat().st_size // 2 + 1
    hashing = [
        f"mine.csv: its SHA-256, of {size:,} bytes",
        f"mine.csv: its SHA-256, {half:,} of {size:,} bytes so far",
        f"mine.csv: its SHA-256, {size:,} of {size:,} bytes so far",
    ]

    def load() -> list[str]:
        said: list[str] = []
        data.load("own", tmp_path / "data", 0.0, said.append, own=DataConfig(path=str(path), time_unit="ms"))
        return said

    clock(monkeypatch, 10.0)
    monkeypatch.setattr("gr_model.data.fingerprint.CHUNK", half)
    lines = load()
    assert lines[:3] == hashing
    assert lines[3] == "mine.csv: reading mine.csv"
    assert f"mine.csv: ordering the rows of {users} users by time, and writing them" in lines
    assert lines[-users:] == [f"mine.csv: {number} of {users} users written so far" for number in range(1, users + 1)]
    path.touch()
    assert load() == hashing  # whether it is another file


def test_an_evaluation_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    clock(monkeypatch, 6.0)
    said: list[str] = []
    list(World(rank=1, size=2).batches(range(40), 4, said.append))
    assert said == ["evaluation: 2 of 5 batches so far", "evaluation: 4 of 5 batches so far"]
