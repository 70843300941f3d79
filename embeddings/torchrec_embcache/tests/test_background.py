"""Threads that work beside training: how a core is divided, and what they do to rows between lookup and update."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.modules.table import TablePart
from hybrid_torchrec.table import TableConfig
from torchrec_embcache import CacheConfig, CachedTable
from torchrec_embcache.background import background_thread

CONFIG = TableConfig(name="item", dim=4)
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")


def niceness_by_name() -> dict[str, int]:
    names = {thread.name: thread.native_id for thread in threading.enumerate()}
    return {name: os.getpriority(os.PRIO_PROCESS, number) for name, number in names.items()}


def print_niceness(folder: str) -> None:
    table = CachedTable(CONFIG, CacheConfig(cache_rows=100, folder=folder, host_rows=10))
    table.prefetch(torch.arange(10))
    table.assign(torch.arange(10), train=True)
    found = niceness_by_name()
    print(found["MainThread"], found["prefetch of item"], found["write-back of item"])
    table.close()


@ON_LINUX
@pytest.mark.parametrize("before", [0, 3, 10])
def test_threads_that_fetch_and_write_give_way_to_training(before: int, tmp_path: Path) -> None:
    """In a process of its own: a priority that was lowered cannot be raised again."""
    call = f"import os, test_background as t; os.nice({before}); t.print_niceness({str(tmp_path)!r})"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    own = os.getpriority(os.PRIO_PROCESS, 0)
    made = subprocess.run(
        [sys.executable, "-c", call], env=env, cwd=Path(__file__).parent, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    training = min(19, own + before)
    assert made.stdout.split() == [str(training), *[str(min(19, training + 12))] * 2]


@ON_LINUX
def test_threads_work_where_their_priority_may_not_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refused)
    done = threading.Event()
    background_thread(done.set, "refused").start()
    assert done.wait(10)


class Owner:
    weight = torch.nn.Parameter(torch.empty(0, 4))


def test_slots_of_a_batch_are_not_asked_for_again_because_others_rows_went() -> None:
    """A prefetch evicts in every step."""
    table = CachedTable(CONFIG, CacheConfig(cache_rows=40))
    part = TablePart(table, 0, Owner())  # type: ignore[arg-type]
    table.update(table.assign(torch.arange(20), train=True), torch.zeros(20, 4))
    first = part.assign(torch.arange(20, 40), train=True)
    before = table.evictions
    second = part.assign(torch.arange(40, 60), train=True)
    assert table.evictions > before
    assert part.slots_now(first) is first.slots and torch.equal(table.find(first.ids), first.slots)
    # Its update lets the rows of both go.
    table.update(first.slots, torch.zeros(20, 4))
    third = part.assign(torch.arange(60, 80), train=True)
    now = part.slots_now(second)
    assert torch.equal(now, table.find(second.ids).clamp(min=0))
    assert part.slots_now(third) is third.slots
    table.close()


def test_slots_of_a_batch_are_asked_for_again_when_its_rows_were_erased_and_others_have_come() -> None:
    table = CachedTable(CONFIG, CacheConfig(cache_rows=40))
    part = TablePart(table, 0, Owner())  # type: ignore[arg-type]
    lookup = part.assign(torch.arange(20), train=True)
    table.erase(torch.arange(5))
    part.assign(torch.arange(100, 105), train=True)
    assert torch.equal(part.slots_now(lookup), table.find(lookup.ids).clamp(min=0))
    table.close()
