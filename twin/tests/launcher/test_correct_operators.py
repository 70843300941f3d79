"""The real operators give the same results under every order that a seed asks for and on every machine size.

In the gate under a third of the seeds, drawn anew by each run; the slow test has them all.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from cases import write_cases
from operators import ALL, CASES
from workshop import Operator, Workshop

CORES = "1,2,20,24,40,48"
SEEDS = range(1, 25)
DRAWN = sorted(random.Random().sample(SEEDS, len(SEEDS) // 3))  # a failure says which: the slow test has it, too


@pytest.fixture(scope="session")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("launcher")
    workshop = Workshop(folder, flags=("-O1",))

    def run(operator: Operator, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        program = folder / f"launch_{operator.snake}"
        if not program.exists():
            workshop.program(operator)
        cases = write_cases(folder / f"{operator.snake}.cases", operator.type, CASES[operator.snake])
        command = [str(program), *options, str(cases)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)

    return run


def check_results(launch, operator: Operator, check: str, seeds: Iterable[int]) -> None:
    words = ["none", *map(str, seeds)]
    result = launch(operator, "--cores", CORES, "--seeds", ",".join(words), TWIN_CHECK=check)
    launches = len(CASES[operator.snake]) * len(CORES.split(",")) * len(words)
    assert result.returncode == 0, result.stdout + result.stderr
    assert int(result.stdout.split()[1]) == launches


@pytest.mark.parametrize("check", ["full", "fast"])
@pytest.mark.parametrize("operator", ALL, ids=lambda op: op.snake)
def test_seeds_and_cores_do_not_change_a_result(launch, operator, check):
    check_results(launch, operator, check, DRAWN)


@pytest.mark.slow
@pytest.mark.parametrize("check", ["full", "fast"])
@pytest.mark.parametrize("operator", ALL, ids=lambda op: op.snake)
def test_no_seed_changes_a_result(launch, operator, check):
    check_results(launch, operator, check, SEEDS)


def test_a_wrong_expectation_is_seen(launch, tmp_path: Path):
    # The comparison itself: one byte of the expected result is changed.
    operator = ALL[0]
    assert launch(operator).returncode == 0
    original = CASES[operator.snake]
    try:
        output = original[0].arguments[-1].array
        output[-1] += 1
        result = launch(operator)
        assert result.returncode == 2
        assert "case one cores 48 seed none wrong: byte" in result.stdout
    finally:
        output[-1] -= 1
