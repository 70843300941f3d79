"""As test_equality.py, on 8 ranks: bags and sequences, every kind of sharding, 20 steps, to 1e-6."""

from __future__ import annotations

import equality_program as program
import equality_results
import pytest
from equality_results import Results, check_case
from sharded_training import Case

WORLD = 8

pytestmark = [pytest.mark.slow, pytest.mark.twin, pytest.mark.npus(WORLD)]


@pytest.fixture(scope="module")
def results(patched: str, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return equality_results.of([WORLD], patched, tmp_path_factory.mktemp("equality"))


@pytest.mark.parametrize("case", program.CASES, ids=lambda case: case.name)
def test_npu_hccl_equals_cpu_gloo(case: Case, results: Results) -> None:
    check_case(case, WORLD, results)


def test_a_plan_of_the_planner_trains_to_the_same(results: Results) -> None:
    planned = results["npu", WORLD][0][program.PLANNED.name]
    equality_results.assert_equal(planned, results["cpu", WORLD][0]["bags-row_wise-sgd"])
