"""Admission and eviction, by hand and against plain Python."""

import math
from dataclasses import replace

import pytest
import torch
from hybrid_torchrec import (
    LFU,
    LRU,
    TTL,
    AdmitAfter,
    AdmitWithProbability,
    CustomScore,
    OptimizerSpec,
    Score,
    TableConfig,
    TableFull,
)
from tiny_tables import have, make, train


@pytest.mark.parametrize("sketch", [None, (4096, 4)])
def test_admitted_after_three_sightings(sketch: tuple[int, int] | None) -> None:
    table = make(admission=AdmitAfter(sightings=3, sketch=sketch))
    assert train(table, 7, 7, 8) == [0, 0, 0]
    # The third sighting comes in this batch: all its occurrences have the row.
    first, second, other = train(table, 7, 7, 8)
    assert first == second != 0 and other == 0
    assert have(table) == {7}
    assert table.read(torch.tensor([7]))[0].shows.tolist() == [4.0]
    # Serving counts nothing.
    table.assign(torch.tensor([8]), train=False)
    assert have(table) == {7}
    assert train(table, 8)[0] != 0


def test_unadmitted_ids_read_the_default_row_and_teach_it_nothing() -> None:
    table = make(admission=AdmitAfter(sightings=100), optimizer=OptimizerSpec(kind="adagrad", lr=1.0))
    slots = table.assign(torch.tensor([1, 2]), train=True)
    before = table.lookup(slots)
    assert (before != 0).all() and torch.equal(before[0], before[1])
    table.update(slots, torch.ones(2, 2))
    assert torch.equal(table.lookup(slots), before) and (table.state["momentum1"][0] == 0).all()


def test_sketch_counts_are_never_too_low() -> None:
    """Of 30,000 ids in a sketch with room for few: nobody waits longer than with exact counts."""
    exact, sketch = (make(admission=AdmitAfter(sightings=4, sketch=s)) for s in (None, (2000, 3)))
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        ids = (torch.rand(6000, generator=generator) ** 3 * 30000).long()
        for table in (exact, sketch):
            table.assign(ids, train=True)
        assert have(exact) <= have(sketch)
    assert len(sketch) > len(exact) > 100


def test_admission_with_probability() -> None:
    """A quarter of the ids at each step, others at the next one, and the same ones every time."""

    def admitted(seed: int) -> list[set[int]]:
        table = make(admission=AdmitWithProbability(probability=0.25), seed=seed)
        found = []
        for _ in range(2):
            table.assign(torch.arange(8000), train=True)
            found.append(have(table))
        return found

    once, twice = admitted(1)
    # 5 standard deviations of a binomial variable.
    assert abs(len(once) - 2000) < 5 * math.sqrt(8000 * 0.25 * 0.75)
    assert abs(len(twice) - 3500) < 5 * math.sqrt(8000 * 0.4375 * 0.5625)
    assert admitted(1) == [once, twice] != admitted(2)


def test_full_table_says_what_to_do() -> None:
    table = make(max_rows=3)
    train(table, 1, 2, 3)
    with pytest.raises(TableFull, match="table 't' is full: 3 rows of at most 3, 2 more wanted.*raise max_rows"):
        train(table, 1, 4, 5)
    assert have(table) == {1, 2, 3} and train(table, 2, 1) == [2, 1]
    with pytest.raises(TableFull, match="only 3 rows are outside of this batch"):
        train(full := make(max_rows=3, eviction=LRU()), 1, 2, 3) and train(full, 4, 5, 6, 7)


def test_lfu_evicts_the_rarest_and_lru_the_oldest() -> None:
    rare, old = make(max_rows=3, eviction=LFU(share=0.0)), make(max_rows=3, eviction=LRU(share=0.0))
    for table in (rare, old):
        train(table, 1, 1, 2)
        train(table, 3)
        train(table, 3, 2)
        train(table, 9)
    # 1 was seen twice at step 1; 2 at steps 1 and 3; 3 at steps 2 and 3: equal counts go by age.
    assert have(rare) == {2, 3, 9} and have(old) == {2, 3, 9}
    train(rare, 8)
    train(old, 2, 8)
    assert have(rare) == {2, 3, 8}
    assert have(old) == {2, 9, 8}


def test_an_evicted_id_starts_anew() -> None:
    table = make(max_rows=1, eviction=LRU(), optimizer=OptimizerSpec(kind="adam", lr=0.1))
    slots = table.assign(torch.tensor([5]), train=True)
    first, _ = table.read(torch.tensor([5]))
    table.update(slots, torch.ones(1, 2))
    assert (table.state["momentum2"][slots] > 0).all()
    train(table, 6)
    train(table, 5)
    again, _ = table.read(torch.tensor([5]))
    assert torch.equal(again.weights, first.weights) and table.evictions == 2
    assert all((tensor == 0).all() for tensor in again.state.values())


def test_a_share_goes_at_a_time() -> None:
    table = make(max_rows=100, eviction=LRU(share=0.25))
    train(table, *range(100))
    train(table, *range(50, 100))
    train(table, 1000)
    assert len(table) == 76 and have(table) == {*range(25, 100), 1000}


def test_rows_expire() -> None:
    table = make(eviction=TTL(steps=4, interval=2))
    train(table, 1, 2)
    for _ in range(4):
        train(table, 2)
    assert have(table) == {1, 2}  # seen 4 steps ago
    train(table, 3)
    assert have(table) == {2, 3}


def test_a_full_table_of_young_rows_stays() -> None:
    table = make(max_rows=2, eviction=TTL(steps=3, interval=100))
    train(table, 1)
    train(table, 2)
    with pytest.raises(TableFull, match="only 0 rows are expired"):
        train(table, 3)
    for _ in range(2):
        train(table, 2)
    train(table, 3)
    assert have(table) == {2, 3}


def test_score_weighs_shows_and_clicks_and_forgets() -> None:
    policy = Score(show_weight=1.0, click_weight=10.0, decay=0.5, share=0.0)
    table = make(max_rows=3, eviction=policy)
    # step: shows of 1 and 2, one click of 3.
    train(table, 1, 1, 1, 1, 2, 3)
    table.add_clicks(torch.tensor([3, 77]), torch.tensor([1.0, 5.0]))
    for _ in range(3):
        train(table, 2)
    expected_2 = 1 * 0.5**3 + 0.5**2 + 0.5 + 1
    rows, _ = table.read(torch.tensor([1, 2, 3]))
    assert rows.shows.tolist() == pytest.approx([4.0, expected_2, 1.0])
    assert rows.clicks.tolist() == [0.0, 0.0, 1.0] and rows.last_step.tolist() == [1, 4, 1]
    # Now: 4 / 8, 1.875 and 11 / 8.
    assert table.select_victims(3).tolist() == [1, 3, 2]
    train(table, 9)
    assert have(table) == {2, 3, 9}


def test_custom_score() -> None:
    seen = {}

    def largest_ids_first(stats) -> torch.Tensor:
        seen.update(step=stats.step, ids=stats.ids.tolist(), shows=stats.shows.tolist())
        return -stats.ids.float()

    table = make(max_rows=3, eviction=CustomScore(score=largest_ids_first, share=0.0))
    train(table, 1, 30, 20, 20)
    train(table, 1, 5)
    assert have(table) == {1, 20, 5}
    assert seen == {"step": 2, "ids": [30, 20], "shows": [1.0, 2.0]}
    assert table.select_victims(2, keep=torch.tensor([20])).tolist() == [5, 1]


def test_wrong_policies_are_refused() -> None:
    for wrong, words in [
        (lambda: AdmitAfter(sightings=0), "at least 1"),
        (lambda: AdmitWithProbability(probability=0.0), r"\(0, 1\]"),
        (lambda: Score(decay=1.5), "decay"),
        (lambda: TTL(steps=0), "at least 1"),
        (lambda: make(eviction=LFU()), "max_rows, which is None"),
        (lambda: make(max_rows=0), "at least 1"),
        (lambda: TableConfig(name="x", dim=0), "table 'x': dim"),
        (lambda: TableConfig(name="x", dim=1, dtype=torch.int8), "dtype"),
        (lambda: OptimizerSpec(kind="unknown"), "valid: sgd"),
    ]:
        with pytest.raises(ValueError, match=words):
            wrong()


@pytest.mark.parametrize("expires", [False, True])
def test_the_oldest_go_in_the_order_of_plain_python(expires: bool) -> None:
    """Few and many ages, some beyond the 4,096 that are counted apart, and steps ahead of the table's."""
    generator = torch.Generator().manual_seed(3)
    for rows, span in ((1, 1), (300, 3), (500, 700), (400, 20_000)):
        table = make(max_rows=rows, eviction=TTL(steps=1 + span // 2) if expires else LRU())
        table.step = 20_000
        ids = torch.randperm(4 * rows, generator=generator)[:rows] - 2 * rows
        empty, _ = table.read(torch.empty(0, dtype=torch.int64))
        last_step = table.step + 2 - torch.randint(0, span, (rows,), generator=generator)
        table.write(
            replace(
                empty,
                ids=ids,
                weights=torch.zeros(rows, 2),
                state={name: torch.zeros(rows, *column.shape[1:]) for name, column in empty.state.items()},
                shows=torch.zeros(rows),
                clicks=torch.zeros(rows),
                last_step=last_step,
            )
        )
        keep = ids[torch.rand(rows, generator=generator) < 0.3]
        kept = set(keep.tolist())
        order = sorted(zip(last_step.tolist(), ids.tolist(), strict=True))
        expected = [one for last, one in order if one not in kept]
        if expires:
            expected = [one for last, one in order if one not in kept and table.step - last > 1 + span // 2]
        for count in (1, 2, rows // 3, rows, 2 * rows):
            assert table.select_victims(count, keep).tolist() == expected[:count]
