"""Sharded hash tables train as torchrec's static collections do, on 1, 2 and 4 processes.

The reference has one process, dense autograd and torch's optimizers. Sums of the same numbers in another order differ
in the last bits: relative errors (norms) of 1e-6 are allowed after 200 steps.
"""

from __future__ import annotations

import functools

import launch
import pytest
import static_training
import torch
from sharded_program import Case
from torch import Tensor

STEPS = 200
SHORT = 30
LONG = [
    f"bags.sgd.mixed.{STEPS}",
    f"sequences.adagrad.mixed.{STEPS}",
    f"bags.rowwise_adagrad.rows.{STEPS}",
    f"weighted.adam.mixed.{STEPS}",
    f"bags.adamw.rows.{STEPS}",
    f"sequences.lamb.tables.{STEPS}",
]
OTHER_WAYS = [
    f"weighted.sgd.rows.{SHORT}.pipeline1",
    f"weighted.adagrad.mixed.{SHORT}.pipeline2",
    f"sequences.adam.rows.{SHORT}.pipeline4",
    f"bags.adam.rows.{SHORT}.accumulate",
    f"sequences.rowwise_adagrad.rows.{SHORT}.accumulate",
]
FEW = [f"bags.sgd.mixed.{SHORT}", f"weighted.adam.rows.{SHORT}", f"sequences.adagrad.mixed.{SHORT}.pipeline3"]
CASES = {
    ("cpu", 1): [LONG[1], LONG[3], *FEW],
    ("cpu", 2): LONG + OTHER_WAYS,
    ("cpu", 4): [LONG[1], *FEW],
    ("npu", 2): FEW,
    ("npu", 4): FEW[-1:],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], dict[str, launch.Result]]:
    """Fills itself: a start of processes serves all cases of its kind."""

    class Starts(dict):
        def __missing__(self, key: tuple[str, int]) -> dict[str, launch.Result]:
            kind, world = key
            self[key] = launch.start(kind, world, CASES[key], tmp_path_factory.mktemp(f"{kind}{world}"))
            return self[key]

    return Starts()


@functools.cache
def expected(name: str) -> dict[str, object]:
    return static_training.train(Case.of(name))


def assert_equal(got: launch.Result, expected: dict[str, object]) -> None:
    assert not isinstance(got, str), got
    for name in ("t0", "t1", "t2"):
        assert torch.equal(got[name]["ids"], expected[name]["ids"])
        assert error(got[name]["weights"], expected[name]["weights"]) < 1e-6, name
    assert error(got["over"], expected["over"]) < 1e-6
    assert error(got["predictions"], expected["predictions"]) < 1e-6


def error(got: Tensor, expected: Tensor) -> float:
    assert got.shape == expected.shape
    return float((got.double() - expected.double()).norm() / expected.double().norm())


ON_CPU = [(world, name) for (kind, world), names in CASES.items() for name in names if kind == "cpu"]
ON_NPU = [(world, name) for (kind, world), names in CASES.items() for name in names if kind == "npu"]


@pytest.mark.parametrize("world, name", ON_CPU)
def test_cpu_and_gloo(world: int, name: str, trained: dict) -> None:
    assert_equal(trained["cpu", world][name], expected(name))


@pytest.mark.twin
@pytest.mark.parametrize("world, name", ON_NPU)
def test_npu_and_hccl(world: int, name: str, trained: dict) -> None:
    assert_equal(trained["npu", world][name], expected(name))
