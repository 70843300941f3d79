"""Each broken version of a real operator is caught: by a check of the simulated core, or by the result.

A third of them, drawn anew by each run; all of them in the slow test. The mutants that a session asks for are compiled
and run together, two at a time, when the first of them is needed.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cases import write_cases
from catalogue import MUTANTS, TABLE, table
from half_cases import CASES as HALF_CASES
from mutant import COMPARISON, COMPILER, TIMEOUT, Mutant
from operators import ALL, CASES
from workshop import OPERATORS, Operator, Workshop

CORES = "48,2"
CASES_OF = {**{op: CASES[op.snake] for op in ALL}, **HALF_CASES}
DRAWN = random.Random().sample(MUTANTS, len(MUTANTS) // 3)  # a failure says which: the slow test has it, too


def name(op: Operator) -> str:
    return "-".join([op.snake, *op.macros.values()])


class Bench:
    """What the mutants share: the unchanged host sides, the tables and the cases."""

    def __init__(self, folder: Path) -> None:
        self.workshop = Workshop(folder, flags=("-O0",))
        self.workshop.fixed_objects()
        self.cases = {op: write_cases(folder / f"{name(op)}.cases", op.type, own) for op, own in CASES_OF.items()}
        self.tables = {op.snake: self.workshop.table_object(op) for op in ALL}
        self.hosts = {op.snake: self.workshop.host_object(op, OPERATORS, folder / f"{op.snake}.o") for op in ALL}

    def outcome(self, mutant: Mutant) -> str:
        """What the compiler says, or the exit code and what the first failing launch printed."""
        op = mutant.operator
        tree = mutant.write(self.workshop.folder / mutant.name)
        try:
            kernel = self.workshop.kernel_object(op, tree, tree / "kernel.o")
        except subprocess.CalledProcessError as fault:
            return f"compiler: {fault.stderr}"
        host = self.hosts[op.snake]
        if mutant.host_changes:
            host = self.workshop.host_object(op, tree, tree / "host.o")
        program = self.link(op, kernel, host, f"{mutant.name}/program")
        result = self.run(program, op, "0.5" if mutant.found_by == TIMEOUT else "30")
        program.unlink()
        return f"{result.returncode} {result.stdout}{result.stderr}"

    def original(self, op: Operator) -> Path:
        kernel = self.workshop.kernel_object(op, OPERATORS, self.workshop.folder / f"original/{name(op)}.o")
        return self.link(op, kernel, self.hosts[op.snake], f"original/{name(op)}")

    def link(self, op: Operator, kernel: Path, host: Path, name: str) -> Path:
        return self.workshop.link([kernel, host, self.tables[op.snake], *self.workshop.fixed_objects()], name)

    def run(self, program: Path, op: Operator, timeout: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TWIN_")}
        environment = {**clean, "TWIN_KERNEL_TIMEOUT": timeout}
        command = [str(program), "--cores", CORES, str(self.cases[op])]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("mutants"))


@pytest.fixture(scope="session")
def outcome(bench: Bench, request: pytest.FixtureRequest) -> Callable[[Mutant], str]:
    wanted = [i.callspec.params["mutant"] for i in request.session.items if "mutant" in getattr(i, "fixturenames", ())]
    with ThreadPoolExecutor(2) as pool:
        texts = dict(zip((m.name for m in wanted), pool.map(bench.outcome, wanted)))
    return lambda mutant: texts[mutant.name]


def check(mutant: Mutant, text: str) -> None:
    start = {COMPILER: "compiler: ", COMPARISON: "2 case "}.get(mutant.found_by, "1 case ")
    assert text.startswith(start), text
    assert mutant.message in text
    if mutant.found_by.startswith("E-"):
        assert f"[{mutant.found_by}] " in text, text


@pytest.mark.parametrize("mutant", DRAWN, ids=lambda m: m.name)
def test_mutant_is_caught(outcome: Callable[[Mutant], str], mutant: Mutant) -> None:
    check(mutant, outcome(mutant))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_every_mutant_is_caught(outcome: Callable[[Mutant], str], mutant: Mutant) -> None:
    check(mutant, outcome(mutant))


def test_every_mutant_is_an_edit_of_the_sources(tmp_path: Path) -> None:
    for mutant in MUTANTS:
        mutant.write(tmp_path / mutant.name)


@pytest.mark.parametrize("op", CASES_OF, ids=name)
def test_the_original_passes(bench: Bench, op: Operator) -> None:
    result = bench.run(bench.original(op), op, "30")
    assert (result.returncode, result.stdout.split()[:1]) == (0, ["ok"]), result.stdout + result.stderr


def test_the_table_is_current() -> None:
    assert TABLE.read_text() == table(), "run: python twin/tests/mutants/catalogue.py > docs/generated/mutants.md"
