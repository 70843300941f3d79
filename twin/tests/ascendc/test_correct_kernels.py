"""Correct kernels pass for every core count and every order that a seed asks for."""

import pytest

KERNELS = [
    "AddOneQueued",
    "AddOneFlags",
    "AddOneScalar",
    "AddNeighboursToken",
    "AddOneAtomically",
    "AddTokensByFlags",
    "AddOneInChains",
    "AddOneThroughCopy",
    "AddOneBehindLoadAhead",
    "AddOneGathered",
    "AddOneByFiller",
    "AddOnePreloaded",
]
SEEDS = ",".join(map(str, range(1, 25)))


@pytest.mark.parametrize("seeds", ["", SEEDS], ids=["in-order", "24-seeds"])
@pytest.mark.parametrize("cores", [1, 2, 20, 24, 40, 48])
@pytest.mark.parametrize("kernel", KERNELS)
def test_correct_kernel_passes(run_case, kernel, cores, seeds):
    # 641: a last tile of one element, shares that begin inside a 32-byte block.
    outcome = run_case(kernel, blocks=cores, cores=cores, elements=641, seeds=seeds)
    assert (outcome.code, outcome.text) == (0, "ok\n")


@pytest.mark.parametrize("elements", [1, 7, 8, 255, 256, 257])
def test_blocks_beyond_the_cores_run_in_waves(run_case, elements):
    outcome = run_case("AddOneQueued", blocks=37, cores=8, elements=elements, seeds=SEEDS)
    assert (outcome.code, outcome.text) == (0, "ok\n")


@pytest.mark.parametrize("kernel", KERNELS)
def test_fast_checks_give_the_same_result(run_case, kernel):
    outcome = run_case(kernel, blocks=8, cores=8, elements=641, check="fast")
    assert (outcome.code, outcome.text) == (0, "ok\n")
