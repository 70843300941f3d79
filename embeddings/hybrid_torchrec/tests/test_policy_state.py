"""What happens to a row's optimizer state, shows and clicks when it is admitted, evicted, erased or kept."""

import math

import pytest
import torch
from hybrid_torchrec import (
    LFU,
    LRU,
    TTL,
    AdmitAfter,
    AdmitWithProbability,
    CustomScore,
    HashTable,
    OptimizerSpec,
    Score,
)
from tiny_tables import have, make, train

BY_LAST_STEP = CustomScore(score=lambda stats: stats.last_step.float(), share=0.0)
EVICTIONS = [LFU(share=0.0), LRU(share=0.0), Score(decay=0.9, share=0.0), BY_LAST_STEP, TTL(steps=2, interval=1)]


def adam(**fields: object) -> HashTable:
    return make(optimizer=OptimizerSpec(kind="adam", lr=0.1), **fields)


def step(table: HashTable, *ids: int) -> None:
    table.update(table.assign(torch.tensor(ids), train=True), torch.ones(len(ids), 2))


def row(table: HashTable, id_: int) -> dict[str, torch.Tensor]:
    rows, found = table.read(torch.tensor([id_]))
    assert found.all()
    return rows.named_tensors()


def assert_new(table: HashTable, id_: int, shows: float) -> None:
    """The row is as an untouched table makes it."""
    fresh = adam()
    train(fresh, id_)
    found, expected = row(table, id_), row(fresh, id_)
    assert torch.equal(found["weights"], expected["weights"])
    assert (found["state.momentum1"] == 0).all() and (found["state.momentum2"] == 0).all()
    assert found["shows"].tolist() == [shows] and found["clicks"].tolist() == [0.0]


@pytest.mark.parametrize("policy", EVICTIONS, ids=lambda policy: type(policy).__name__)
def test_state_shows_and_clicks_go_with_the_evicted_row(policy: object) -> None:
    table = adam(eviction=policy, max_rows=8 if isinstance(policy, TTL) else 3)
    step(table, 5)
    table.add_clicks(torch.tensor([5]), torch.tensor([1.0]))
    for _ in range(3):
        step(table, 1, 1, 2, 2)
    step(table, 3)
    step(table, 4)
    assert 5 not in have(table)
    table.erase(torch.tensor([3, 4]))  # or 5 would be the rarest again
    train(table, 5)
    assert_new(table, 5, shows=1.0)


@pytest.mark.parametrize("sketch", [None, (4096, 4)])
def test_an_id_that_waits_learns_nothing_and_starts_at_zero(sketch: tuple[int, int] | None) -> None:
    table = adam(admission=AdmitAfter(sightings=3, sketch=sketch))
    step(table, 7)
    step(table, 7)
    train(table, 7)
    assert_new(table, 7, shows=3.0)


def test_an_id_admitted_by_chance_starts_at_zero() -> None:
    table = adam(admission=AdmitWithProbability(probability=0.3), seed=5)
    steps = 0
    while 7 not in have(table):
        table.update(table.assign(torch.tensor([7, 7]), train=True), torch.zeros(2, 2))
        steps += 1
    assert steps > 1
    found = row(table, 7)
    assert found["shows"].tolist() == [2.0]  # of the batch that admitted it
    assert (found["state.momentum1"] == 0).all()


def test_corrections_count_the_tables_steps() -> None:
    """A row that starts late takes the first step of an Adam whose t is the table's, in float64."""
    table = adam()
    for _ in range(9):
        step(table, 1)
    train(table, 2)
    before = row(table, 2)["weights"].double()
    step(table, 2)
    t, (b1, b2), g = 10, table.config.optimizer.betas, 1.0
    mean, square = (1 - b1) * g / (1 - b1**t), (1 - b2) * g**2 / (1 - b2**t)
    expected = before - 0.1 * mean / (math.sqrt(square) + table.config.optimizer.epsilon)
    torch.testing.assert_close(row(table, 2)["weights"].double(), expected, rtol=1e-6, atol=1e-6)


def test_rows_whose_gradients_wait_are_not_evicted_and_those_of_erased_ones_are_dropped() -> None:
    table = make(optimizer=OptimizerSpec(kind="sgd", lr=1.0), max_rows=2, eviction=LRU(share=0.0))
    waiting = table.assign(torch.tensor([1]), train=True)
    table.update(waiting, torch.ones(1, 2), apply=False)
    train(table, 2)
    train(table, 3)
    assert have(table) == {1, 3}  # 1 was seen least recently, but waits
    before = row(table, 1)["weights"]
    table.apply_gradients()
    assert torch.equal(row(table, 1)["weights"], before - 1.0)
    table.update(table.assign(torch.tensor([1]), train=True), torch.ones(1, 2), apply=False)
    table.erase(torch.tensor([1]))
    train(table, 4)  # in the slot of the erased row
    default, other, new = table.lookup(torch.zeros(1, dtype=torch.int64)), row(table, 3)["weights"], row(table, 4)
    table.apply_gradients()
    assert torch.equal(row(table, 4)["weights"], new["weights"])
    assert torch.equal(table.lookup(torch.zeros(1, dtype=torch.int64)), default)
    assert torch.equal(row(table, 3)["weights"], other)


def test_a_victim_that_was_kept_comes_back_with_its_state() -> None:
    table = adam(max_rows=2, eviction=LRU(share=0.0))
    for id_ in (1, 2):
        step(table, id_)
    victims = table.select_victims(1)
    assert victims.tolist() == [1] and have(table) == {1, 2}
    kept = table.pop(victims)
    step(table, 3)
    table.erase(torch.tensor([3]))
    table.write(kept)
    found = row(table, 1)
    for name, tensor in kept.named_tensors().items():
        assert torch.equal(found[name], tensor), name
    assert (found["state.momentum2"] > 0).all()


def test_rows_whose_gradients_wait_do_not_expire() -> None:
    table = make(optimizer=OptimizerSpec(kind="sgd", lr=1.0), eviction=TTL(steps=1, interval=1))
    table.update(table.assign(torch.tensor([1]), train=True), torch.ones(1, 2), apply=False)
    for _ in range(4):
        train(table, 2)
    assert have(table) == {1, 2}
