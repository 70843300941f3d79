"""Correct kernels pass for every core count and every order that a seed asks for."""

import pytest

KERNELS = [
    "AddOneQueued",
    "AddOneFlags",
    "AddOneScalar",
    "AddNeighboursToken",
    "AddOneThroughCopy",
    "AddOneBehindLoadAhead",
    "AddOneGathered",
]
SEEDS = [None, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cores", [1, 2, 20, 40])
@pytest.mark.parametrize("kernel", KERNELS)
def test_correct_kernel_passes(run_case, kernel, cores, seed):
    # 641: a last tile of one element, shares that begin inside a 32-byte block.
    outcome = run_case(kernel, blocks=cores, cores=cores, elements=641, seed=seed)
    assert (outcome.code, outcome.text) == (0, "ok\n")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("elements", [1, 7, 8, 255, 256, 257])
def test_blocks_beyond_the_cores_run_in_waves(run_case, elements, seed):
    outcome = run_case("AddOneQueued", blocks=37, cores=8, elements=elements, seed=seed)
    assert (outcome.code, outcome.text) == (0, "ok\n")


@pytest.mark.parametrize("kernel", KERNELS)
def test_fast_checks_give_the_same_result(run_case, kernel):
    outcome = run_case(kernel, blocks=8, cores=8, elements=641, check="fast")
    assert (outcome.code, outcome.text) == (0, "ok\n")
