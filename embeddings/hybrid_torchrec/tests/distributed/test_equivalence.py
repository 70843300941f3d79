"""Sharded hash tables train as torchrec's static collections do, on 1, 2, 3 and 4 processes.

The reference has one process, dense autograd and torch's optimizers. Sums of the same numbers in another order differ
in the last bits: relative errors (norms) of 1e-6 are allowed after 200 steps, whatever the optimizer.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import launch
import pytest
import static_training
import torch
from hybrid_torchrec.optimizers import KINDS
from sharded_program import Case
from torch import Tensor

STEPS = 200
SHORT = 30
BRIEF = 12
ALLOWED = 1e-6
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
    f"sequences.adagrad.mixed.{SHORT}.late3",
    f"bags.adam.rows.{SHORT}.accumulate",
    f"sequences.rowwise_adagrad.rows.{SHORT}.accumulate",
]
FEW = [f"bags.sgd.mixed.{SHORT}", f"weighted.adam.rows.{SHORT}", f"sequences.adagrad.mixed.{SHORT}.pipeline3"]
# Ids stay on the host: pooled with means, columns cut in two, and weights.
ON_HOST = [f"bags.adam.mixed.{SHORT}.host", f"weighted.adagrad.rows.{SHORT}.host"]
NODES = [f"bags.adagrad.nodes.{SHORT}", f"sequences.adam.nodes.{SHORT}"]
# Optimizers that look at a whole row take other steps where its columns are cut: README, limits.
WHOLE_ROWS = ("rowwise_adagrad", "lamb")
GRID = list(
    dict.fromkeys(
        f"{module}.{kind}.{'rows' if sharding in ('mixed', 'nodes') and kind in WHOLE_ROWS else sharding}.{STEPS}"
        for kind in KINDS
        for module, sharding in (("bags", "rows"), ("weighted", "tables"), ("sequences", "mixed"), ("bags", "nodes"))
    )
)
# Every kind of optimizer in every module, a few steps: the slow test has them all, on every number of ranks.
BRIEFLY = [f"{name.removesuffix(f'.{STEPS}')}.{BRIEF}" for name in GRID]
WORLDS = (1, 2, 3, 4)
CASES = {
    ("cpu", 1): FEW,
    ("cpu", 2): LONG + OTHER_WAYS + BRIEFLY,
    ("cpu", 3): FEW,
    ("cpu", 4): [*FEW, *NODES],
    ("npu", 2): FEW + ON_HOST,
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
    for what, difference in errors(got, expected).items():
        assert difference < ALLOWED, what


def errors(got: launch.Result, expected: dict[str, object]) -> dict[str, float]:
    assert not isinstance(got, str), got
    found = {}
    for name in ("t0", "t1", "t2"):
        assert torch.equal(got[name]["ids"], expected[name]["ids"])
        found[name] = error(got[name]["weights"], expected[name]["weights"])
    return found | {what: error(got[what], expected[what]) for what in ("over", "predictions")}


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


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_all_optimizers_on_every_number_of_ranks(world: int, tmp_path: Path) -> None:
    """EQUIVALENCE_REPORT names a file of JSON to which the largest errors are added."""
    results = launch.start("cpu", world, GRID, tmp_path)
    found = {name: errors(results[name], expected(name)) for name in GRID}
    if path := os.environ.get("EQUIVALENCE_REPORT"):
        file = Path(path)
        report = json.loads(file.read_text()) if file.exists() else {"allowed": ALLOWED, "steps": STEPS, "ranks": {}}
        report["ranks"][str(world)] = {name: _largest(differences) for name, differences in found.items()}
        file.write_text(json.dumps(report, indent=1) + "\n")
    far = {name: differences for name, differences in found.items() if not _near(differences)}
    assert not far, far


def _near(differences: dict[str, float]) -> bool:
    """No NaN is: whether max() gives it depends on its place."""
    return all(difference < ALLOWED for difference in differences.values())


def _largest(differences: dict[str, float]) -> float:
    return float(f"{max(differences.values()):.2g}")


def test_tables_that_trained_to_nothing_are_far() -> None:
    fine = {"t0": 1e-7, "t1": ALLOWED / 2}
    assert _near(fine) and not _near({**fine, "t2": ALLOWED})
    assert not _near({**fine, "t2": float("nan")}) and not _near({"t": float("nan"), **fine})
