"""kill -9 in the middle of any system call that changes files: no committed row is lost, none is another id's."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from faulty import run, server
from hybrid_torchrec.table import HashTable, RowBatch
from kill_figures import Kill, add_to_report
from phases import PHASES, under_way
from programs import CONFIG, INDEX_ROWS, SLAB_BYTES, change_store, store_steps, train_cached, train_step
from rows import assert_rows
from torchrec_embcache import DiskStore

FEW = 14
AIMS = (None, *PHASES)
CALLS = {None: 400, "save": 4_000, "evict": 20_000, "write-back": 20_000, "prefetch": 20_000}  # some fifty steps


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> object:
    return server(tmp_path_factory.mktemp("faulty"))


def check_store(context: object, folder: Path, seed: int) -> Kill:
    """Kills one run of change_store."""
    draw = random.Random(seed)
    calls, percent = draw.randrange(1, 120), draw.choice((0, 1, 50, 99, 100))
    sent, code = run(context, change_store, folder, seed, calls, percent)
    assert code == -9
    ended = len(sent)
    before: dict[int, int] = {}
    allowed: dict[int, set[int | None]] = {}
    for step, (kind, ids) in enumerate(itertools.islice(store_steps(seed), ended + 1)):
        after = dict(before)
        for one in ids:
            if kind == "write":
                after[one] = step
            elif kind == "erase":
                after.pop(one, None)
        # Of the step that was under way, each row may be done or not.
        allowed = {one: {before.get(one), after.get(one)} if step == ended else {after.get(one)} for one in range(150)}
        before = after
    store = DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=2)
    rows, found = store.read(torch.arange(150))
    versions = dict(zip(rows.ids.tolist(), rows.last_step.tolist()))
    for one in range(150):
        assert versions.get(one) in allowed[one], (one, versions.get(one), allowed[one])
    assert_rows(CONFIG, rows, versions)
    assert len(store) == len(versions) == sum(len(part) for part in store.scan(50))
    store.close()
    return Kill(ended)


def check_training(context: object, folder: Path, seed: int) -> Kill:
    """Kills one run of train_cached."""
    draw = random.Random(seed)
    aim = AIMS[seed % len(AIMS)]
    calls, percent = draw.randrange(1, CALLS[aim]), draw.choice((0, 50, 100))
    sent, code = run(context, train_cached, folder, aim, calls, percent, INDEX_ROWS[seed // len(AIMS) % 2])
    assert code == -9
    phases = under_way(folder)
    assert aim is None or aim in phases
    flushed = sent[-1] + 1 if sent else 0
    # A flush of 7 more steps was under way, and the prefetch of none of them changes rows.
    table = HashTable(CONFIG)
    history: dict[int, list[RowBatch]] = {}
    for step in range(flushed + 7):
        train_step(table, step)
        if step < flushed - 1:
            continue
        rows, _ = table.read(table.ids())
        for k, one in enumerate(rows.ids.tolist()):
            history.setdefault(one, []).append(rows.select(torch.tensor([k])))
        if step == flushed - 1:
            committed = set(history)
    store = DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=2)
    rows = RowBatch.concat([store.read(torch.empty(0, dtype=torch.int64))[0], *store.scan(100)])
    assert not flushed or committed <= set(rows.ids.tolist())
    for k, one in enumerate(rows.ids.tolist()):
        row = rows.select(torch.tensor([k])).named_tensors()
        states = [state.named_tensors() for state in history.get(one, [])]
        assert any(all(torch.equal(row[name], state[name]) for name in row) for state in states), one
    store.close()
    return Kill(flushed, phases, aim)


def test_a_killed_store(context: object, tmp_path: Path) -> None:
    kills = [check_store(context, tmp_path / str(seed), seed) for seed in range(FEW)]
    assert len({kill.ended for kill in kills}) > FEW // 2  # it was not always the same place


def test_killed_training(context: object, tmp_path: Path) -> None:
    """In every phase."""
    kills = [check_training(context, tmp_path / str(seed), seed) for seed in range(2 * len(AIMS))]
    assert max(kill.ended for kill in kills) > 0
    assert set.union(*(kill.phases for kill in kills)) == set(PHASES)


PIECES = [(check_store, first, 50) for first in range(1000, 1100, 50)]
PIECES += [(check_training, first, 50) for first in range(2000, 2200, 50)]


@pytest.mark.slow
@pytest.mark.parametrize("check, first, count", PIECES)
def test_300_kills(check: Callable[..., Kill], first: int, count: int, context: object, tmp_path: Path) -> None:
    """EMBCACHE_KILLS_REPORT names a file of JSON, to which the figures of each piece are added, and one of Markdown."""
    kills = [check(context, tmp_path / str(seed), seed) for seed in range(first, first + count)]
    assert len({kill.ended for kill in kills}) > count // 5
    if check is check_training:
        for phase in PHASES:
            assert sum(phase in kill.phases for kill in kills) >= count // len(AIMS)
    if name := os.environ.get("EMBCACHE_KILLS_REPORT"):
        add_to_report(Path(name), "store" if check is check_store else "training", first, kills)
