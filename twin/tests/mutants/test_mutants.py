"""Each broken version of a real operator is caught: by a check of the simulated core, or by the result."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from build import Workshop
from cases import write_cases
from cumsum_mutants import MUTANTS as CUMSUM_MUTANTS
from jagged_mutants import MUTANTS as JAGGED_MUTANTS
from mutant import COMPARISON, COMPILER, Mutant
from operators import ALL, CASES

MUTANTS = [*CUMSUM_MUTANTS, *JAGGED_MUTANTS]
CORES = "48,2"
TABLE = Path(__file__).resolve().parents[3] / "docs/mutants.md"


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("mutants"), flags=("-O0",))


@pytest.fixture(scope="session")
def original(workshop: Workshop) -> dict[str, Path]:
    """Of each operator: the host side's object, the table and the cases."""
    folder = workshop.folder
    return {
        **{f"{op.snake}.host": _host(workshop, op) for op in ALL},
        **{f"{op.snake}.table": workshop.table_object(op) for op in ALL},
        **{f"{op.snake}.cases": write_cases(folder / f"{op.snake}.cases", op.type, CASES[op.snake]) for op in ALL},
    }


def _host(workshop: Workshop, op) -> Path:
    from build import OPERATORS

    return workshop.host_object(op, OPERATORS, workshop.folder / f"{op.snake}_host.o")


def outcome(workshop: Workshop, original: dict[str, Path], mutant: Mutant) -> str:
    """What the first failing launch printed."""
    op = mutant.operator
    tree = mutant.write(workshop.folder / mutant.name)
    try:
        kernel = workshop.kernel_object(op, tree, tree / "kernel.o")
    except subprocess.CalledProcessError as fault:
        return f"compiler: {fault.stderr}"
    host = workshop.host_object(op, tree, tree / "host.o") if mutant.host_changes else original[f"{op.snake}.host"]
    program = workshop.link([kernel, host, original[f"{op.snake}.table"], *workshop.fixed_objects()], f"{mutant.name}/program")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TWIN_")}
    command = [str(program), "--cores", CORES, str(original[f"{op.snake}.cases"])]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    program.unlink()
    return f"{result.returncode} {result.stdout}{result.stderr}"


def expected_start(mutant: Mutant) -> str:
    if mutant.found_by == COMPILER:
        return "compiler: "
    return "2 case " if mutant.found_by == COMPARISON else "1 case "


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_mutant_is_caught(workshop: Workshop, original: dict[str, Path], mutant: Mutant) -> None:
    text = outcome(workshop, original, mutant)
    assert text.startswith(expected_start(mutant)), text
    assert mutant.message in text
    if mutant.found_by.startswith("E-"):
        assert f"[{mutant.found_by}]" in text, text


@pytest.mark.parametrize("op", ALL, ids=lambda op: op.snake)
def test_the_original_passes(workshop: Workshop, original: dict[str, Path], op) -> None:
    program = workshop.program(op)
    command = [str(program), "--cores", CORES, str(original[f"{op.snake}.cases"])]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stdout.split()[0]) == (0, "ok"), result.stdout + result.stderr
