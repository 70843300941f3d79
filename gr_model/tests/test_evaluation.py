"""Ranks by chunks of the catalogue against sorting in plain Python."""

import numpy as np
import pytest
import torch

from gr_model.runtime.world import World
from gr_model.tasks import evaluation


def case(items=50, queries=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randint(-3, 4, (queries, 4), generator=generator).float()  # whole numbers: many ties
    table = torch.randint(-3, 4, (items, 4), generator=generator).float()
    target = torch.randint(items, (queries,), generator=generator).numpy()
    rng = np.random.default_rng(seed)
    seen = [np.unique(np.append(rng.integers(0, items, 12), target[i : i + i % 2])) for i in range(queries)]
    row = np.repeat(np.arange(queries), [len(part) for part in seen])
    return query, table, target, row, np.concatenate(seen)


def by_hand(query, table, target, row, item):
    ranks = []
    for i, scores in enumerate((query @ table.T).tolist()):
        hidden = set(item[row == i].tolist()) | {int(target[i])}
        ranks.append(1 + sum(score >= scores[target[i]] for v, score in enumerate(scores) if v not in hidden))
    return ranks


@pytest.mark.parametrize("chunk", [1, 7, 50])
@pytest.mark.parametrize("cells", [20, 1 << 26])
def test_ranks_are_those_of_the_whole_product(chunk, cells, monkeypatch):
    monkeypatch.setattr(evaluation, "CELLS", cells)
    query, table, target, row, item = case()
    expected = by_hand(query, table, target, row, item)
    got = evaluation.target_ranks(query, table.split(chunk), target, row, item)
    assert got.tolist() == expected


def test_no_more_scores_than_allowed_exist_at_once(monkeypatch):
    monkeypatch.setattr(evaluation, "CELLS", 70)
    assert [len(part) for part in evaluation._parts([torch.zeros(50, 4)], 7)] == [10] * 5


def test_scores_that_are_not_finite_are_refused():
    query, table, *rest = case()
    query[2, 1] = float("nan")
    with pytest.raises(ValueError, match="not finite"):
        evaluation.target_ranks(query, table.split(7), *rest)


def test_processes_share_the_batches_and_take_equally_many_turns():
    users = list(range(23))
    turns = [list(World(rank, 3).batches(users, 4)) for rank in range(3)]
    assert [len(turn) for turn in turns] == [2, 2, 2]
    counted = [user for turn in turns for batch, counts in turn if counts for user in batch]
    assert sorted(counted) == users
    assert list(World().batches(users, 10)) == [(users[:10], True), (users[10:20], True), (users[20:], True)]
