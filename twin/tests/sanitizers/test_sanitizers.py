"""The runtime, the simulated cores and real operators compiled with sanitizers and run as plain programs.

AddressSanitizer and UndefinedBehaviorSanitizer share a build; ThreadSanitizer needs its own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cases import write_cases
from embedding_cases import UPDATE
from hstu_cases import ATTENTION
from jagged_cases import CUMSUM, TO_DENSE, TO_JAGGED
from operators import CASES
from workshop import Operator, Workshop, wheel_includes

HERE = Path(__file__).resolve().parent
TWIN = HERE.parents[1]
BUILDS = {"address,undefined": "ASAN_OPTIONS", "thread": "TSAN_OPTIONS"}
# One operator for each kind of work: moves, a scan, sums and updates in place, the cube. Long rows are many times
# slower here and take no other path.
OPERATORS = (CUMSUM, TO_DENSE, TO_JAGGED, UPDATE, ATTENTION)
LONG = ("long rows", "wide padding", "wide rows", "wide rows with weights", "long")
REDUCED = {op.snake: [c for c in CASES[op.snake] if c.name not in LONG] for op in OPERATORS}


class Sanitized:
    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        # -O0: what runs is short, and what is compiled is long. Nothing that could be found is optimized away.
        flags = ("-O0", "-g1", f"-fsanitize={name}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
        self.workshop = Workshop(folder, flags=flags, own_runtime=True)
        self.environment = {
            BUILDS[name]: "halt_on_error=1:second_deadlock_stack=1:history_size=4",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        }

    def program(self, name: str, parts: tuple[str, ...]) -> Path:
        shared = [f"-I{HERE}", f"-I{TWIN / 'runtime/include'}", *wheel_includes()]
        own = self.workshop.compile(HERE / f"{name}.cpp", self.workshop.folder / f"{name}.o", shared)
        return self.workshop.link([own, *self.workshop.runtime_objects(parts)], name)

    def kernels(self) -> Path:
        """The test kernels of twin/tests/ascendc."""
        source = HERE.parent / "ascendc/run_case.cpp"
        own = self.workshop.compile(source, self.workshop.folder / "run_case.o", [f"-I{TWIN / 'include'}"])
        return self.workshop.link([own, *self.workshop.core_objects()], "run_case")

    def run(self, program: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {**self.environment, **environment}
        command = [str(program), *options]
        return subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="session", params=list(BUILDS), ids=["address-undefined", "thread"])
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sanitized:
    return Sanitized(request.param, tmp_path_factory.mktemp("sanitized"))


def assert_clean(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stdout + result.stderr
    assert "runtime error" not in result.stderr
    assert "Sanitizer" not in result.stderr


def test_streams_and_events(sanitized: Sanitized) -> None:
    assert_clean(sanitized.run(sanitized.program("streams", ("acl",))))


def test_collectives(sanitized: Sanitized) -> None:
    assert_clean(sanitized.run(sanitized.program("collectives", ("acl", "hccl"))))


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda op: op.snake)
def test_operators(sanitized: Sanitized, operator: Operator) -> None:
    folder = sanitized.workshop.folder
    cases = write_cases(folder / f"{operator.snake}.cases", operator.type, REDUCED[operator.snake])
    program = sanitized.workshop.program(operator)
    assert_clean(sanitized.run(program, "--cores", "2,40", "--seeds", "none,1,2", str(cases)))


# The way out of a kernel: its cores are unwound, or left where they are.
@pytest.mark.parametrize(
    "kernel", ["VectorBeforeLoad", "QueueTensorNotFreed", "MeetingOfSome", "OverlappingShares", "LoopWithoutCall"]
)
def test_stopped_kernels(sanitized: Sanitized, kernel: str) -> None:
    # ThreadSanitizer holds a signal back until the program's next call: there the loop makes one.
    if kernel == "LoopWithoutCall" and sanitized.name == "thread":
        kernel = "PollingForEver"
    program = sanitized.workshop.folder / "run_case"
    if not program.exists():
        sanitized.kernels()
    result = sanitized.run(program, kernel, "4", "4", "640", "1", TWIN_KERNEL_TIMEOUT="2")
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"operator {kernel} block " in result.stdout
    assert "Sanitizer" not in result.stderr
