"""Which users a step shows, how they are spread over processes, and reading ahead in worker processes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from gr_model import data
from gr_model.data import build, order, shards
from gr_model.data.loader import Loader, shares_of
from gr_model.data.order import Order, spread
from gr_model.tests import data_files


def test_every_epoch_shows_every_user_once_in_another_order() -> None:
    steps = Order(users=23, batch=5, seed=3)
    epochs = [[steps.users_of_step(epoch * 5 + index) for index in range(5)] for epoch in range(3)]
    assert [len(users) for users in epochs[0]] == [5, 5, 5, 5, 3]
    assert all(sorted(sum(epoch, [])) == list(range(23)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert Order(users=23, batch=5, seed=3).users_of_step(7) == epochs[1][2]  # from any step on, in any order
    assert Order(users=23, batch=5, seed=4).users_of_step(7) != epochs[1][2]


def test_users_on_disk_are_shuffled_within_windows_of_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "WINDOW", 3)
    group_of = np.repeat(np.arange(10), 4)
    steps = Order(users=40, batch=12, seed=0, group_of=group_of)
    epoch = sum((steps.users_of_step(step) for step in range(4)), [])
    assert sorted(epoch) == list(range(40))
    windows = [set(group_of[epoch[at : at + 12]]) for at in (0, 12, 24, 36)]
    assert [len(window) for window in windows] == [3, 3, 3, 1]
    assert epoch[:12] != sorted(epoch[:12])
    again = sum((steps.users_of_step(step) for step in range(4, 8)), [])
    assert sorted(again) == list(range(40)) and again != epoch


def best_possible(lengths: list[int], processes: int) -> int:
    """The smallest possible largest load, by trying everything."""
    costs = [n * n for n in lengths]
    choices = itertools.product(range(processes), repeat=len(costs))
    return min(max(sum(c for c, p in zip(costs, choice) if p == q) for q in range(processes)) for choice in choices)


@pytest.mark.parametrize("processes", [2, 3])
def test_the_load_is_near_the_best_possible(processes: int) -> None:
    """The greedy rule is at most 4/3 of the best (Graham 1969)."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        lengths = rng.integers(1, 60, 8)
        shares = spread(list(range(8)), lengths, processes)
        assert sorted(user for share in shares if share.counts for user in share.users) == list(range(8))
        loads = [int((lengths[share.users] ** 2).sum()) for share in shares if share.counts]
        assert max(loads) <= 4 / 3 * best_possible(lengths.tolist(), processes)


def test_large_batches_are_balanced_to_a_hundredth() -> None:
    lengths = np.minimum(np.random.default_rng(0).zipf(1.3, 512) * 10, 4000)
    shares = spread(list(range(512)), lengths, 4)
    loads = [int((lengths[share.users].astype(np.int64) ** 2).sum()) for share in shares]
    in_turn = [int((lengths[rank::4].astype(np.int64) ** 2).sum()) for rank in range(4)]
    assert max(loads) / (sum(loads) / 4) < 1.01 < max(in_turn) / (sum(in_turn) / 4)


GROUPS, PER_GROUP = 40, 200


@pytest.mark.parametrize("processes", [2, 3, 4, 8])
def test_processes_have_row_groups_of_their_own_and_equal_loads(processes: int) -> None:
    """Also of skewed lengths, and of 16 users for a process. Without choice all processes read all row groups."""
    lengths = np.minimum(np.random.default_rng(1).zipf(1.5, GROUPS * PER_GROUP) * 10, 200)
    group_of = np.repeat(np.arange(GROUPS), PER_GROUP)
    order_ = Order(len(lengths), 128, 0, group_of, lengths.astype(float) ** 2)
    read: list[set[int]] = [set() for _ in range(processes)]
    loads = []
    for step in range(order_.steps_per_epoch):
        users = order_.users_of_step(step)
        shares = spread(users, lengths[users], processes, order_.lanes_of_step(step))
        assert sorted(user for share in shares if share.counts for user in share.users) == sorted(users)
        loads.append([int((lengths[share.users] ** 2).sum()) for share in shares])
        for groups, share in zip(read, shares):
            groups.update(group_of[share.users])
    assert sum(map(len, read)) < GROUPS + 12 * processes
    slowest = np.array(loads).max(1).sum() / (np.array(loads).sum() / processes)
    assert slowest < {2: 1.01, 3: 1.02, 4: 1.03, 8: 1.08}[processes]
    assert sorted(sum((order_.users_of_step(step) for step in range(order_.steps_per_epoch)), [])) == list(
        range(len(lengths))
    )


def test_a_process_without_users_takes_one_that_does_not_count() -> None:
    shares = spread([4, 9], np.array([3, 5]), 4)
    assert [share.users for share in shares if share.counts] == [[9], [4]]
    assert [share.users for share in shares if not share.counts] == [[4], [4]]


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> shards.ShardedUsers:
    monkeypatch.setattr(build, "BUCKET", 1000)
    monkeypatch.setattr(shards, "GROUP_ROWS", 30)
    data_files.ml_1m(tmp_path / "ml-1m", data_files.random_rows())
    return data.load("ml-1m", tmp_path).users


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_the_loader_hands_over_the_histories_of_each_step(users, workers: int, context: str) -> None:
    """From a step in the middle on, from shards on disk, on the second of two processes."""
    if workers == 0 and context == "spawn":
        context = "fork"  # without workers there is nothing to start
    shares = shares_of(users, batch=4, seed=1, longest=100, rank=1, processes=2)
    loader = Loader(shares, users, workers=workers, prefetch=2, context=context)
    works = list(loader.works(3, 9))
    assert [work.step for work in works] == list(range(3, 9))
    for work in works:
        assert work.share == shares.of_step(work.step)
        assert len(work.histories) == len(work.share.users)
        for user, history in zip(work.share.users, work.histories, strict=True):
            for name in ("items", "actions", "times", "features"):
                assert getattr(history, name).tolist() == getattr(users[user], name).tolist()
    assert list(loader.works(9, 9)) == []


def test_only_the_newest_is_handed_over(users) -> None:
    shares = shares_of(users, batch=4, seed=1, longest=5, rank=0, processes=1)
    for work in Loader(shares, users, newest=6).works(0, 2):
        for user, history in zip(work.share.users, work.histories, strict=True):
            assert history.items.tolist() == users[user].items[-6:].tolist()
