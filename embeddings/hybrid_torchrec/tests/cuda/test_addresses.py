"""Kernels use no address outside of their tensors, also in lanes that have nothing to do."""

from collections.abc import Callable

import pytest
import torch
from addresses import looked_at
from hybrid_torchrec import AdmitAfter, OptimizerSpec, TableConfig, Uniform
from hybrid_torchrec.table import TableGroup
from interpreted import ON_GPU, DeviceTable

pytestmark = pytest.mark.skipif(ON_GPU, reason="the interpreter is looked at; a GPU has compute-sanitizer")
COUNT = 37  # of no block, chunk or power of two


def table(number: int, kind: str, **more: object) -> DeviceTable:
    return DeviceTable(
        TableConfig(
            name=f"t{number}",
            dim=5,
            initial_capacity=0,
            optimizer=OptimizerSpec(kind=kind),
            initializer=Uniform(low=-1.0, high=1.0),
            **more,
        )
    )


def ids(step: int) -> torch.Tensor:
    """Some new, some again, some more than once."""
    return (torch.arange(COUNT) ** 2 + 11 * step) % 61


@pytest.mark.parametrize("kind", ["sgd", "rowwise_adagrad", "adam", "lamb"])
def test_of_a_table(kind: str) -> None:
    one = table(0, kind)
    with looked_at() as launched:
        for step in range(3):
            slots = one.assign(ids(step), train=True)
            offsets = torch.tensor([0, 0, 5, COUNT])
            one.update(slots, one.lookup(slots))
            grads = one.lookup_pooled(slots, offsets, "mean")
            one.sample_weight_gradients(slots, offsets, grads, "mean")
            one.update(slots, grads, offsets=offsets, pooling="mean")
            one.erase(ids(step)[:9])
    every = {"find_or_insert", "count_new", "allocate_slots", "resolve_slots", "count_runs", "start", "gather", "pool"}
    assert every | {"factor_gradients", "update_runs", "find", "set_buckets", "rehash"} <= set(launched)


def test_of_a_table_whose_ids_are_admitted_on_the_host() -> None:
    one = table(0, "adagrad", admission=AdmitAfter(sightings=2))
    with looked_at():
        for step in (0, 0, 1, 1):
            slots = one.assign(ids(step), train=True)
            one.update(slots, one.lookup(slots))


@pytest.mark.parametrize("lengths", [(COUNT, 0), (20, 17), (1, 36)])
def test_of_a_group(lengths: tuple[int, int]) -> None:
    group = TableGroup([table(number, "adagrad") for number in range(2)])
    with looked_at():
        for step in range(3):
            slots = group.assign(ids(step), lengths, train=True)
            group.update(slots, lengths, group.lookup(slots, lengths))


def test_a_lane_outside_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots of a table that has fewer."""
    one = table(0, "sgd")
    one.assign(ids(0), train=True)
    slots: Callable[[int], torch.Tensor] = lambda far: torch.tensor([1, far])  # noqa: E731
    with looked_at():
        one.lookup(slots(2))
        with pytest.raises(Exception, match="gather: create_masked_load of"):
            one.lookup(slots(10**9))
