"""The suites of `inv test` against what the image holds."""

from __future__ import annotations

import ast
import io
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest.mock import MagicMock

import pytest
from packaging.utils import canonicalize_name
from rich.console import Console

from grstack import failures, locks, spec, suites
from grstack.engines import Inputs
from grstack.errors import StepError
from grstack.needs import GIB
from grstack.paths import Paths
from grstack.run import Runner
from grstack.side_by_side import SideBySide

if TYPE_CHECKING:
    from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = spec.load(ROOT / "versions.yaml")
IN_THE_IMAGE = ("gr_model", "smoke_tests", "embeddings", "kernels", "recipes", "twin")
DISTRIBUTIONS = {"elftools": "pyelftools", "fbgemm_gpu": "fbgemm-gpu-cpu", "yaml": "pyyaml"}  # the others bear the name


@cache
def imported() -> dict[str, str]:
    """Distribution of every import of the programs and tests that run in the image -> a file that has it."""
    found: dict[str, str] = {}
    for file in (file for place in IN_THE_IMAGE for file in sorted((ROOT / place).rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in (name.partition(".")[0] for name in names):
                found[canonicalize_name(DISTRIBUTIONS.get(name, name))] = str(file.relative_to(ROOT))
    return found


@pytest.mark.parametrize("python", VERSIONS.pythons.supported)
@pytest.mark.parametrize("arch", VERSIONS.architectures)
def test_what_is_imported_is_installed_with_either_build_of_torch(python: str, arch: str) -> None:
    lock = locks.read(ROOT, "npu", python, arch)
    used = imported()
    for build in lock.builds:
        missing = used.keys() & {p.name for p in lock.packages} - {p.name for p in lock.wheels(build)}
        assert {name: used[name] for name in missing} == {}, f"torch: {build}"
    assert {"torch", "triton", "numpy", "pyelftools", "fbgemm-gpu-cpu", "pytest"} <= used.keys()


def test_suites_that_the_architecture_has_no_triton_for_are_left_out_and_no_others() -> None:
    for python, arch in ((python, arch) for python in VERSIONS.pythons.supported for arch in VERSIONS.architectures):
        lock = locks.read(ROOT, "npu", python, arch)
        without = [] if arch == "x86_64" else [suite for suite in suites.IN_IMAGE if suite.endswith("/cuda")]
        assert suites.impossible(suites.IN_IMAGE, lock) == without
    assert len(without) == 3


@pytest.mark.parametrize(
    ("cores", "gib", "isolates", "number"),
    [
        (1, 64, True, 1),
        (2, 64, True, 3),
        (2, 23, True, 3),
        (2, 15, True, 2),
        (2, 4, True, 1),
        (8, 40, True, 6),
        (8, 64, False, 1),
    ],
)
def test_as_many_suites_at_once_as_cores_and_memory_take(
    monkeypatch: pytest.MonkeyPatch, cores: int, gib: int, isolates: bool, number: int
) -> None:
    monkeypatch.setattr(suites.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(suites.host, "memory", lambda: gib * GIB)
    s = cast("Session", SimpleNamespace(engine=SimpleNamespace(isolates=isolates)))
    assert suites.at_once(s) == number


@pytest.mark.parametrize(("line", "code"), [("assert True", 0), ("assert False, 'as wanted'", 1)])
def test_tests_on_the_host_run_beside_others_and_say_how_they_ended(tmp_path: Path, line: str, code: int) -> None:
    """What they print is on the jobs' console, in one piece, and their failures are where the gate shows them again."""
    (tmp_path / "test_one.py").write_text(f"def test_one() -> None:\n    {line}\n")
    (tmp_path / "build" / suites.RESULTS).mkdir(parents=True)
    out = io.StringIO()
    runner = Runner(Console(file=out, width=200))
    s = cast("Session", SimpleNamespace(runner=runner, paths=Paths(root=tmp_path, cache=tmp_path / "cache")))
    jobs = {"host": lambda: suites.beside(s, [str(tmp_path)], "host")}
    assert SideBySide(jobs, at_once=1, runner=runner).run() == ["host"] * code
    assert ("1 passed" in out.getvalue()) == (code == 0)
    console = Console(file=io.StringIO(), width=200)
    failures.show(tmp_path / "build" / suites.RESULTS, console)
    assert ("as wanted" in console.file.getvalue()) == bool(code)  # type: ignore[attr-defined]


def imports_triton(file: Path) -> list[str]:
    """What a module imports of Triton, or of our packages written in it, when it is imported itself."""
    found = []
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
        found += [name for name in names if {"triton", "cuda"} & set(name.split(".")) and "torch.cuda" not in name]
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)
    return found


def test_triton_is_imported_in_folders_named_cuda_and_elsewhere_when_it_is_used() -> None:
    """It has no wheel for every architecture and is not in the image of target cpu: what imports it cannot be there."""
    files = [file for place in IN_THE_IMAGE for file in sorted((ROOT / place).rglob("*.py"))]
    found = {str(file.relative_to(ROOT)): names for file in files if (names := imports_triton(file))}
    outside = {file: names for file, names in found.items() if "cuda" not in Path(file).parts}
    assert outside.keys() == {"recipes/gluon/check.py"}, "which looks at the one that it is given, when it is built"
    assert len(found) > 40, "the kernels and their tests"


def test_host_tests_run_where_the_image_cannot_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*args: object) -> None:
        raise StepError("the plugin does not compile")

    ran: list[list[str]] = []
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites.lint, "run", lambda *args: [])
    monkeypatch.setattr(suites.host, "ensure_commands", lambda *args: None)
    monkeypatch.setattr(suites, "session", lambda choices: MagicMock())
    monkeypatch.setattr(suites, "_there", list)
    monkeypatch.setattr(suites, "on_host", lambda console, paths, results: ran.append(paths))
    monkeypatch.setattr(suites, "execute", breaks)
    with pytest.raises(StepError, match="does not compile"):
        suites.run_all(unit=False, engine="auto")
    assert ran == [list(suites.ON_HOST)]


def test_wheels_beside_the_image_are_staged_less_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image of Python 3.11 has numpy and PyYAML, which optuna asks for."""
    paths = SimpleNamespace(root=ROOT, build=tmp_path / "build", wheels=tmp_path / "cache")
    lock = locks.read(ROOT, "npu", "3.11", "x86_64")
    s = SimpleNamespace(paths=paths, lock=lock, versions=VERSIONS, settings=None, console=None)

    def fetch(lock: locks.Lock, *_: object) -> Inputs:
        files = {package.filename: tmp_path / package.filename for package in lock.packages}
        for path in files.values():
            path.touch()
        return Inputs(wheels={}, wheels_all=files, requirements="")

    monkeypatch.setattr("grstack.inputs.fetch", fetch)
    folder = tmp_path / "build/test-wheels/sweeps"
    folder.mkdir(parents=True)
    (folder / "optuna-3.0-py3-none-any.whl").touch()  # of an earlier lock
    suites.stage_beside(cast("Session", s), spec.SWEEPS)
    staged = {path.name.partition("-")[0] for path in folder.iterdir()}
    assert {"optuna", "sqlalchemy", "alembic"} <= staged and not staged & {"numpy", "pyyaml"}
    assert len(list(folder.glob("optuna-*"))) == 1
