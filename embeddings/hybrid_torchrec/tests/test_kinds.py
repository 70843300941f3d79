"""Optimizers, initialisers and policies go by numbers into the back ends: every number means the same everywhere, and
one that is not known is refused with those that are."""

import re

import pytest
import torch
from hybrid_torchrec import (
    LFU,
    LRU,
    TTL,
    AdmissionPolicy,
    Constant,
    EvictionPolicy,
    HashTable,
    Normal,
    OptimizerSpec,
    RowBatch,
    Score,
    TableConfig,
    TruncatedNormal,
    Uniform,
)
from hybrid_torchrec.backends import npu, torch_rows
from hybrid_torchrec.kinds import EVICTIONS, INITIALIZERS, listed
from hybrid_torchrec.optimizers import KINDS
from kinds_reference import DIM, MOMENTS, NAMES, ROWS, after_steps, first_rows, gradients, pretending, spec_of

KNOWN = "sgd.*adagrad.*rowwise_adagrad.*adam.*adamw.*lamb.*lion"


def moments(number: int) -> list[torch.Tensor]:
    shape = (ROWS,) if NAMES[number] == "rowwise_adagrad" else (ROWS, DIM)
    return [torch.zeros(shape) for _ in range(MOMENTS[number])]


def step_by_number(number: int, weights: torch.Tensor, state: list[torch.Tensor], g: torch.Tensor, t: int) -> None:
    """The CPU's kernel, asked for by the number alone."""
    spec = spec_of(number) if number in NAMES else OptimizerSpec(kind="adam")
    first, second = [*state, None, None][:2]
    torch.ops.hybrid_torchrec.update_rows(
        weights,
        first,
        second,
        torch.arange(1, ROWS),
        g,
        None,
        False,
        None,
        number,
        spec.lr,
        spec.epsilon,
        *spec.betas,
        spec.weight_decay,
        t,
        None,
        None,
        1,
    )


def test_the_numbers_are_those_that_are_written_here() -> None:
    assert {kind.number: name for name, kind in KINDS.items()} == NAMES
    assert {kind.number: kind.moments for kind in KINDS.values()} == MOMENTS


@pytest.mark.parametrize("number", NAMES)
def test_a_number_means_the_same_to_the_cpu_and_to_pytorch(number: int) -> None:
    weights, state = first_rows(), moments(number)
    for t, g in enumerate(gradients(), start=1):
        step_by_number(number, weights, state, g, t)
    torch.testing.assert_close(weights.double(), after_steps(number), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("number", NAMES)
def test_a_kind_means_the_same_to_pytorchs_operators(number: int) -> None:
    weights = first_rows()
    state = dict(zip(("momentum1", "momentum2"), moments(number)))
    for t, g in enumerate(gradients(), start=1):
        torch_rows.update(weights, state, torch.arange(1, ROWS), g, spec_of(number), spec_of(number).lr, t)
    torch.testing.assert_close(weights.double(), after_steps(number), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("number", NAMES)
def test_a_kind_means_the_same_to_a_table(number: int, device: str) -> None:
    config = TableConfig(name="t", dim=DIM, optimizer=spec_of(number))
    table = HashTable(config, device)
    slots = table.assign(torch.arange(1, ROWS), train=True)
    rows, _ = table.read(torch.arange(1, ROWS))
    table.write(RowBatch.from_named_tensors({**rows.named_tensors(), "weights": first_rows()[1:].to(table.device)}))
    for g in gradients():
        table.update(slots, g.to(table.device))
    torch.testing.assert_close(table.lookup(slots).cpu().double(), after_steps(number)[1:], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("number", [len(KINDS), -1, 2**40])
def test_an_unknown_number_is_refused_by_the_cpu(number: int) -> None:
    weights = first_rows()
    with pytest.raises(RuntimeError, match=f"unknown optimizer {number}; valid: {re.escape(listed(KINDS))}"):
        step_by_number(number, weights, [torch.zeros(ROWS, DIM)] * 2, gradients()[0], 1)
    assert torch.equal(weights, first_rows())


def test_an_unknown_kind_is_refused_by_pytorchs_operators() -> None:
    weights, spec = first_rows(), pretending("sophia")
    state = {name: torch.zeros(ROWS, DIM) for name in ("momentum1", "momentum2")}
    with pytest.raises(ValueError, match=f"unknown optimizer 'sophia'; valid: {KNOWN}"):
        torch_rows.update(weights, state, torch.arange(1, ROWS), gradients()[0], spec, 0.1, 1)
    assert torch.equal(weights, first_rows()) and not state["momentum1"].any()


def test_an_unknown_kind_is_refused_by_a_table(device: str) -> None:
    """Also where it has come into a table that was made for another."""
    table = HashTable(TableConfig(name="t", dim=DIM, optimizer=OptimizerSpec(kind="adam")), device)
    slots = table.assign(torch.arange(1, ROWS), train=True)
    before = table.lookup(slots)
    object.__setattr__(table.config.optimizer, "kind", "sophia")
    if isinstance(table.backend, npu.NpuBackend):
        assert not npu.supports(table.config.optimizer, DIM)
        table.backend._fused = False
    with pytest.raises(ValueError, match=f"unknown optimizer 'sophia'; valid: {KNOWN}"):
        table.update(slots, gradients()[0].to(table.device))
    assert torch.equal(table.lookup(slots), before)


@pytest.mark.parametrize("fields", [{"kind": "sophia"}, {"kind": 3}, {"kind": None}])
def test_an_unknown_kind_is_refused_where_it_is_given(fields: dict) -> None:
    with pytest.raises(ValueError, match=f"unknown optimizer .*; valid: {KNOWN}"):
        OptimizerSpec(**fields)


@pytest.mark.parametrize(
    "fields",
    [{"lr": -1.0}, {"lr": float("nan")}, {"lr": "0.1"}, {"eps": -1e-9}, {"betas": (0.9,)}, {"betas": (0.9, 1.0)}],
)
def test_numbers_that_make_no_step_are_refused(fields: dict) -> None:
    with pytest.raises(ValueError, match="adam: (lr|eps|betas)"):
        OptimizerSpec(kind="adam", **fields)


INITIALISERS = {
    0: Constant(value=0.5),
    1: Uniform(low=1.0, high=2.0),
    2: Normal(mean=3.0, std=0.5),
    3: TruncatedNormal(mean=3.0, std=0.5, low=-1.0, high=1.0),
}


@pytest.mark.parametrize("number", INITIALISERS)
def test_a_number_means_the_same_initialiser(number: int) -> None:
    """By the moments of 20,000 elements; the standard deviation of a normal cut at 1 is 0.5396 of the whole one's."""
    initialiser = INITIALISERS[number]
    assert initialiser.kind == number
    rows = torch.ops.hybrid_torchrec.initial_rows(torch.arange(2000), 10, number, *initialiser.parameters(), 7)
    mean, std, low, high = {
        0: (0.5, 0.0, 0.5, 0.5),
        1: (1.5, 1 / 12**0.5, 1.0, 2.0),
        2: (3.0, 0.5, 0.0, 6.0),
        3: (3.0, 0.2698, 2.5, 3.5),
    }[number]
    assert abs(float(rows.mean()) - mean) < 0.02 and abs(float(rows.std()) - std) < 0.01
    assert low <= float(rows.min()) and float(rows.max()) <= high


@pytest.mark.parametrize("number", [len(INITIALIZERS), -1, 99])
def test_an_unknown_initialiser_is_refused(number: int) -> None:
    message = f"unknown initializer {number}; valid: {re.escape(listed(INITIALIZERS))}"
    with pytest.raises((RuntimeError, ValueError), match=message):
        torch.ops.hybrid_torchrec.initial_rows(torch.arange(3), 2, number, 0.0, 1.0, 0.0, 1.0, 0)
    weights = torch.zeros(4, 2)
    with pytest.raises((RuntimeError, ValueError), match=message):
        torch.ops.hybrid_torchrec.start_rows(
            weights, [], torch.arange(3), torch.arange(3), number, 0.0, 1.0, 0.0, 1.0, 0
        )
    assert not weights.any()


@pytest.mark.parametrize("number", [len(EVICTIONS), -1, 99])
def test_an_unknown_ranking_is_refused(number: int) -> None:
    index = torch.classes.hybrid_torchrec.HashIndex(4)
    index.insert(torch.arange(3), torch.ones(3, dtype=torch.int64), 1)
    known = f"valid: {re.escape(listed(EVICTIONS))}"
    with pytest.raises((RuntimeError, ValueError), match=f"unknown eviction policy {number}; {known}"):
        index.victims(2, number, 1.0, 0.0, 1.0, 0, 2, torch.empty(0, dtype=torch.int64))


@pytest.mark.parametrize(
    ("policy", "first"),
    [(LFU(share=0.0), 4), (LRU(share=0.0), 1), (Score(decay=0.5, share=0.0), 2), (TTL(steps=2, interval=99), 1)],
)
def test_a_policy_means_the_same_ranking(policy: EvictionPolicy, first: int, device: str) -> None:
    """1 was seen often, but longest ago; 2 was seen twice at step 3; 3 three times at step 4; 4 once at step 5."""
    table = HashTable(TableConfig(name="t", dim=2, eviction=policy, max_rows=9, optimizer=OptimizerSpec()), device)
    for ids in ([1] * 9, [1] * 9, [2, 2], [3, 3, 3], [4]):
        table.assign(torch.tensor(ids), train=True)
    assert table.select_victims(1).tolist() == [first]


class Stranger(EvictionPolicy):
    """A policy that no table knows how to follow."""


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"eviction": Stranger(), "max_rows": 5}, f"{', '.join(EVICTIONS)}, CustomScore; got .*Stranger"),
        ({"eviction": "lru", "max_rows": 5}, f"{', '.join(EVICTIONS)}, CustomScore; got 'lru'"),
        ({"eviction": LRU, "max_rows": 5}, "CustomScore; got LRU: an object, not the class: LRU\\(\\)"),
        ({"admission": "after"}, "AdmitAll, AdmitAfter, AdmitWithProbability; got 'after'"),
        ({"optimizer": torch.optim.Adam}, "OptimizerSpec\\(kind='adam'"),
        ({"optimizer": "adam"}, "OptimizerSpec\\(kind='adam'"),
        ({"initializer": torch.nn.init.zeros_}, "Constant, Uniform, Normal, TruncatedNormal, Filled"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_table_cannot_follow_is_refused_when_it_is_made(fields: dict, message: str) -> None:
    with pytest.raises(TypeError, match=f"table 't': .*{message}"):
        HashTable(TableConfig(name="t", dim=2, **fields))


def test_policies_of_ones_own_kind_stand_on_known_ones() -> None:
    class Patient(AdmissionPolicy):
        """By sightings, as AdmitAfter."""

    table = HashTable(TableConfig(name="t", dim=2, admission=Patient(sightings=2)))
    assert table.assign(torch.tensor([5]), train=True).tolist() == [0]
    assert table.assign(torch.tensor([5]), train=True).tolist() == [1]
