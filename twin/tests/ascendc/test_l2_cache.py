"""What the emulated L2 lets through, against a cache of Python's ordered dictionary."""

from __future__ import annotations

import random
import subprocess
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

LINE = 512
TURN = 64 * 1024 // LINE  # lines


@dataclass(frozen=True)
class Request:
    core: int
    at: int
    bytes: int
    read: bool
    write: bool
    barrier: int = 0

    def lines(self) -> Iterator[int]:
        yield from range(self.at // LINE, (self.at + self.bytes - 1) // LINE + 1)


def passing(capacity: int, cores: int, requests: list[Request]) -> tuple[int, int]:
    """Bytes read from HBM and written to it; `capacity` in lines."""
    cache: OrderedDict[int, bool] = OrderedDict()  # line: dirty, the longest unused first
    read = written = 0
    for barrier in range(max(request.barrier for request in requests) + 1):
        touches = [
            [(line, r) for r in requests if (r.core, r.barrier) == (core, barrier) for line in r.lines()]
            for core in range(cores)
        ]
        while any(touches):
            for queue in touches:
                for line, request in queue[:TURN]:
                    if line not in cache:
                        read += request.read
                        if len(cache) == capacity:
                            written += cache.popitem(last=False)[1]
                        cache[line] = False
                    cache[line] |= request.write
                    cache.move_to_end(line)
                del queue[:TURN]
    return LINE * read, LINE * (written + sum(cache.values()))


@pytest.fixture(scope="session")
def program(program_of: Callable[[str], Path]) -> Path:
    return program_of("run_l2")


def run(program: Path, capacity: int, cores: int, requests: list[Request]) -> tuple[int, ...]:
    rows = [f"{r.core} {r.at} {r.bytes} {r.read:d} {r.write:d} {r.barrier}" for r in requests]
    text = "\n".join([f"{capacity} {cores} {len(rows)}", *rows])
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=True, timeout=60)
    return tuple(map(int, done.stdout.split()))


def test_what_fits_is_read_once(program: Path) -> None:
    twice = [Request(0, LINE * 2 * line, LINE, read=True, write=False) for line in [*range(4), *range(4)]]
    assert run(program, 4, 1, twice) == (4 * LINE, 0)
    assert run(program, 3, 1, twice) == (8 * LINE, 0)  # each is gone when it is asked for again


def test_what_is_written_is_not_read_and_goes_to_hbm_once(program: Path) -> None:
    rows = [Request(core, LINE * core, LINE, read=False, write=True) for core in (0, 1, 0, 1)]
    later = [Request(1 - r.core, r.at, r.bytes, read=True, write=True, barrier=1) for r in rows]
    assert run(program, 8, 2, [*rows, *later]) == (0, 2 * LINE)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("capacity", [1, 40, 300, 5000])
def test_any_requests(program: Path, capacity: int, seed: int) -> None:
    draw = random.Random(seed)
    requests = []
    for core in range(3):
        barrier = 0
        for _ in range(60):
            barrier += draw.random() < 0.1
            kind = draw.choice([(True, False), (False, True), (True, True)])
            size = draw.choice([4, 300, 512, 2000, 90_000])
            requests.append(Request(core, draw.randrange(1_000_000), size, *kind, barrier=barrier))
    assert run(program, capacity, 3, requests) == passing(capacity, 3, requests)
