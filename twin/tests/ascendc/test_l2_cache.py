"""What the emulated L2 lets through, against a cache of Python's ordered dictionary."""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter, OrderedDict
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

    def __str__(self) -> str:
        return f"ask {self.core} {self.at} {self.bytes} {self.read:d} {self.write:d} {self.barrier}"


@dataclass(frozen=True)
class Flag:
    call: str  # set or wait
    core: int
    meeting: int  # what the cores that set have set together

    def __str__(self) -> str:
        return f"{self.call} {self.core} {self.meeting}"


Event = Request | Flag
Item = tuple[int, Request] | Flag  # a line, or a flag


def items(events: list[Event], core: int) -> list[Item]:
    """What a core does, line by line."""
    found: list[Item] = []
    for event in events:
        if event.core == core:
            found += [event] if isinstance(event, Flag) else [(line, event) for line in event.lines()]
    return found


def passing(capacity: int, cores: int, events: list[Event]) -> tuple[int, int]:
    """Bytes read from HBM and written to it; `capacity` in lines."""
    cache: OrderedDict[int, bool] = OrderedDict()  # line: dirty, the longest unused first
    read = written = barrier = 0
    missing = Counter(event.meeting for event in events if isinstance(event, Flag) and event.call == "set")
    queues = [items(events, core) for core in range(cores)]

    def serve(line: int, request: Request) -> None:
        nonlocal read, written
        if line not in cache:
            read += request.read
            if len(cache) == capacity:
                written += cache.popitem(last=False)[1]
            cache[line] = False
        cache[line] |= request.write
        cache.move_to_end(line)

    def turn(queue: list[Item]) -> bool:
        """Whether anything was done."""
        done = lines = 0
        for item in queue:
            if isinstance(item, Flag):
                if item.call == "set":
                    missing[item.meeting] -= 1
                elif missing[item.meeting] > 0:
                    break
            elif lines == TURN or item[1].barrier > barrier:
                break
            else:
                serve(*item)
                lines += 1
            done += 1
        del queue[:done]
        return done > 0

    for queue in queues:  # a set before every request counts from the start
        while queue and isinstance(queue[0], Flag) and queue[0].call == "set":
            missing[queue[0].meeting] -= 1
            del queue[0]
    while any(queues):
        moved = [turn(queue) for queue in queues]
        if not any(moved):
            barrier += 1
    return LINE * read, LINE * (written + sum(cache.values()))


@pytest.fixture(scope="session")
def program(program_of: Callable[[str], Path]) -> Path:
    return program_of("run_l2")


def output(program: Path, capacity: int, cores: int, events: list[Event]) -> str:
    text = "\n".join([f"{capacity} {cores} {len(events)}", *map(str, events)])
    return subprocess.run([str(program)], input=text, capture_output=True, text=True, check=True, timeout=60).stdout


def run(program: Path, capacity: int, cores: int, events: list[Event]) -> tuple[int, ...]:
    return tuple(map(int, output(program, capacity, cores, events).split()))


def test_what_fits_is_read_once(program: Path) -> None:
    twice = [Request(0, LINE * 2 * line, LINE, read=True, write=False) for line in [*range(4), *range(4)]]
    assert run(program, 4, 1, twice) == (4 * LINE, 0)
    assert run(program, 3, 1, twice) == (8 * LINE, 0)  # each is gone when it is asked for again


def test_what_is_written_is_not_read_and_goes_to_hbm_once(program: Path) -> None:
    rows = [Request(core, LINE * core, LINE, read=False, write=True) for core in (0, 1, 0, 1)]
    later = [Request(1 - r.core, r.at, r.bytes, read=True, write=True, barrier=1) for r in rows]
    assert run(program, 8, 2, [*rows, *later]) == (0, 2 * LINE)


@pytest.mark.parametrize("waits", [True, False])
def test_a_flag_passed_on_without_requests(program: Path, waits: bool) -> None:
    """Core 2 writes what core 0 reads; core 1 has waited for it when it sets its own flag."""
    events: list[Event] = [Request(0, 0, LINE, read=True, write=False)]
    if waits:
        events.insert(0, Flag("wait", 0, 1))
    events += [Flag("wait", 1, 0), Flag("set", 1, 1)]
    events += [Request(2, 0, LINE, read=False, write=True), Flag("set", 2, 0)]
    assert run(program, 8, 3, events) == ((0 if waits else LINE), LINE)


def test_neighbours_on_both_sides_of_a_flag(program: Path) -> None:
    """Core 1 reads the one line that fits before core 0 goes on to the next."""
    first, second = (Request(0, LINE * line, LINE, read=False, write=True) for line in (0, 1))
    reads = Request(1, 0, LINE, read=True, write=False)
    events = [first, Flag("set", 0, 0), Flag("wait", 1, 0), reads, Flag("set", 1, 1), Flag("wait", 0, 1), second]
    assert run(program, 1, 2, events) == (0, 2 * LINE)


def test_what_has_no_order_is_refused(program: Path) -> None:
    """Each sets behind its wait for the other."""
    events: list[Event] = []
    for core in (0, 1):
        one = Request(core, 0, LINE, read=True, write=False)
        events += [one, Flag("wait", core, core), one, Flag("set", core, 1 - core)]
    assert output(program, 8, 2, events) == "stuck\n"


def drawn(draw: random.Random, cores: int, flags: bool) -> list[Event]:
    """In an order in which they could happen."""
    events: list[Event] = []
    barriers = [0] * cores
    known = 0  # meetings that all have set
    for _ in range(60 * cores):
        core = draw.randrange(cores)
        if draw.random() < 0.1:
            # Who waits for a flag has passed no fewer barriers than those who set it.
            barriers = [max(barriers) + 1] * cores if flags else [b + (c == core) for c, b in enumerate(barriers)]
        if flags and draw.random() < 0.2:
            events += [Flag("set", other, known) for other in draw.sample(range(cores), draw.randint(1, cores))]
            known += 1
        if known > 0 and draw.random() < 0.3:
            events.append(Flag("wait", core, draw.randrange(known)))
        kind = draw.choice([(True, False), (False, True), (True, True)])
        size = draw.choice([4, 300, 512, 2000, 90_000])
        events.append(Request(core, draw.randrange(1_000_000), size, *kind, barrier=barriers[core]))
    return events


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("capacity", [1, 40, 300, 5000])
@pytest.mark.parametrize("flags", [False, True])
def test_any_requests(program: Path, flags: bool, capacity: int, seed: int) -> None:
    events = drawn(random.Random(seed), 3, flags)
    assert run(program, capacity, 3, events) == passing(capacity, 3, events)


CHUNK = 64 * 1024


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("pairs", [1, 3])
@pytest.mark.parametrize("mode", [0, 1], ids=["all", "pairs"])
def test_what_one_core_writes_for_another_comes_from_l2(
    program_of: Callable[[str], Path], mode: int, pairs: int, seed: int | None
) -> None:
    """Of two chunks for each pair, x alone is read, y and the workspace are written. A reader that did not wait would
    ask for each chunk while the writer still loads its own: twice as much is read then."""
    env = {**os.environ, "TWIN_COUNTS_L2": str(192 << 20)} | ({} if seed is None else {"TWIN_SEED": str(seed)})
    command = [str(program_of("run_flags")), str(mode), str(pairs), "2"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{2 * CHUNK * pairs} {4 * CHUNK * pairs}\n"), done.stderr
