"""Kills a trainer at seeded random points, and checks what is left; run by test_faults.py:

    fault_kills.py FOLDER FIRST_SEED COUNT

Prints a line of JSON for each seed. Even seeds kill at a call of the system (an open, a rename, a sync, the middle of a
write), odd ones at a call of a Python function, on any thread: both are counted, so every kill hits.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import torch
from children import one_thread, start, wait
from hybrid_torchrec.checkpoint import Checkpointer, TableShard, compact, summed
from hybrid_torchrec.checkpoint.summed import SummedFile
from hybrid_torchrec.serving import Consumer, Publisher
from hybrid_torchrec.table import HashTable, RowBatch
from small_tables import all_rows, assert_same_rows, make_table, train

STEPS = 9
MAX_ROWS = 70
_EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir")


ALL_BUT = 0.97  # threads take turns in another order each time, and so a run has some calls more or less


def new_table() -> HashTable:
    return make_table("rowwise_adagrad", max_rows=MAX_ROWS)


resident_table = new_table


def one_step(table: HashTable, step: int) -> None:
    train(table, step, of=200)
    table.erase(table.ids().sort().values[step::17])


def states() -> list[RowBatch]:
    """Rows after each number of steps, of a table that nobody saves."""
    table = resident_table()
    found = [all_rows(table)]
    for step in range(1, STEPS + 3):
        one_step(table, step)
        found.append(all_rows(table))
    return found


def trainer(folder: Path, tell: Callable[[str], None]) -> None:
    """Saves in every way there is, and tells what is done."""
    table = new_table()
    checkpointer = Checkpointer(folder / "saved", {"user": table}, keep=2)
    publisher = Publisher(folder / "stream", {"user": TableShard(table)}, keep=1)
    tell(f"published {publisher.run} 0 0")
    for step in range(1, STEPS + 1):
        one_step(table, step)
        record = publisher.publish(step)
        tell(f"published {record.run} {record.sequence} {step}")
        if step in (1, 6):
            checkpointer.save(step)
        elif step == 8:
            pending = checkpointer.save_async(step)
            publisher.publish_base(step)
            pending.wait()
        else:
            checkpointer.save_delta(step)
        tell(f"saved {step}")
        if step in (4, 9):
            compact(folder / "saved")
            tell(f"saved {step}")
        if step == 5:
            publisher.shard.request_base("nobody", "a test")
    checkpointer.remove_old()


class Points:
    """Counts the calls at which a kill can hit, and kills at one of them: of the system (`deadly`), or of functions."""

    def __init__(self, folder: Path, deadly: int, deadly_call: int) -> None:
        self.count = 0
        self.calls = 0
        self.deadly = deadly
        self.deadly_call = deadly_call
        self._folder = str(folder)
        summed.BLOCK_BYTES = mmap.PAGESIZE  # these small files have whole blocks then, which go past the page cache
        self._sync, self._write = os.fsync, SummedFile.write
        os.fsync = self._fsync
        points = self

        def write(file: SummedFile, data: object) -> int:
            view = memoryview(data).cast("B")
            if points.next_is_deadly() and len(view) > 1:
                points._write(file, view[: len(view) // 2])
                file.fileno()
            points.reach()
            return points._write(file, view)

        SummedFile.write = write
        sys.addaudithook(self._audit)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def next_is_deadly(self) -> bool:
        return self.count + 1 == self.deadly

    def reach(self) -> None:
        self.count += 1
        if self.count == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def _fsync(self, handle: int) -> None:
        self.reach()
        self._sync(handle)

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in _EVENTS and str(arguments[0]).startswith(self._folder):
            self.reach()

    def _profile(self, frame: object, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.calls += 1
            if self.calls == self.deadly_call:
                os.kill(os.getpid(), signal.SIGKILL)


def run_trainer(folder: Path, deadly: int, deadly_call: int) -> tuple[int, list[str], dict[str, int]]:
    """Exit code, what it told, and the points and calls that it passed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    reader, writer = os.pipe()

    def work() -> None:
        points = Points(folder, deadly, deadly_call)
        trainer(folder, lambda line: os.write(writer, f"{line}\n".encode()) and None)
        os.write(writer, f"passed {points.count} {points.calls}\n".encode())

    child = start(work)
    os.close(writer)
    with os.fdopen(reader) as told:
        lines = told.read().splitlines()
    code = wait(child)
    passed = [line.split() for line in lines if line.startswith("passed")]
    counts = {"points": int(passed[0][1]), "calls": int(passed[0][2])} if passed else {}
    return code, [line for line in lines if not line.startswith("passed")], counts


def check(folder: Path, told: list[str], expected: list[RowBatch]) -> dict[str, int]:
    """No committed row is lost, none is another's, and everything goes on."""
    saved = max((int(line.split()[1]) for line in told if line.startswith("saved")), default=0)
    table = new_table()
    checkpointer = Checkpointer(folder / "saved", {"user": table}, keep=2)
    torn = len(checkpointer.folder.torn())
    for step in checkpointer.steps()[:-1][-2:]:  # also older ones, whatever was being removed
        assert checkpointer.load(step=step) == step
        assert_same_rows(all_rows(table), expected[step])
    step = checkpointer.load() if checkpointer.steps() else 0
    assert_same_rows(all_rows(table), expected[step])
    assert step >= saved, (step, saved)
    published = [line.split() for line in told if line.startswith("published")]
    if published:
        _, run, sequence, _ = published[-1]
        consumer = Consumer(folder / "stream", name="check")
        while consumer.poll():
            pass
        status = consumer.status()
        shard = status["shards"][0]
        assert status["run"] == run and shard["sequence"] >= int(sequence), (status, published[-1])
        rows = expected[shard["sequence"]]  # one record a step
        weights, found = consumer.lookup("user", rows.ids)
        assert bool(found.all()) and torch.equal(weights, rows.weights)
        assert status["tables"] == {"user": len(rows)}
    if step <= STEPS:
        one_step(table, step + 1)
        assert_same_rows(all_rows(table), expected[step + 1])
        (checkpointer.save_delta if step else checkpointer.save)(step + 1)
        again = new_table()
        assert Checkpointer(folder / "saved", {"user": again}).load() == step + 1
        assert_same_rows(all_rows(again), expected[step + 1])
        assert checkpointer.folder.torn() == []
        Publisher(folder / "stream", {"user": TableShard(again)}).publish(step + 1)
        consumer = Consumer(folder / "stream", name="check")
        while consumer.poll():
            pass
        assert consumer.status()["tables"] == {"user": len(again)}
    return {"saved": saved, "loaded": step, "torn": torn, "published": len(published)}


def main(folder: Path, first: int, count: int) -> None:
    one_thread()
    expected = states()
    code, told, passed = run_trainer(folder / "whole", 0, 0)
    assert code == 0, "the trainer fails without being killed"
    print(json.dumps({"seed": None, **passed, **check(folder / "whole", told, expected)}))
    for seed in range(first, first + count):
        dice = random.Random(seed)
        point = call = 0
        if seed % 2 == 0:
            point = dice.randrange(1, int(passed["points"] * ALL_BUT))
        else:
            call = dice.randrange(1, int(passed["calls"] * ALL_BUT))
        code, told, _ = run_trainer(folder / "killed", point, call)
        assert code == -signal.SIGKILL, f"seed {seed}: point {point}, call {call} was not reached: {code}"
        result = check(folder / "killed", told, expected)
        print(json.dumps({"seed": seed, "point": point, "call": call, **result}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
