"""Which of the fetched wheels an environment takes, and which its devel variant."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from grstack import inputs as fetching
from grstack import locks
from grstack.engines import Inputs
from grstack.engines.artefacts import needed_wheels
from grstack.errors import StepError
from grstack.network import Settings
from grstack.plan import Kind, Step
from grstack.plan.make import devel_packages
from grstack.recipes import Recipe

ROOT = Path(__file__).resolve().parents[2]
WHEELS = {name: Path(name) for name in ("pytest-9.2.0-py3-none-any.whl", "Jinja2-3.1.6-py3-none-any.whl")}
LINES = "pytest==9.2.0 --hash=sha256:ab\nJinja2==3.1.6 --hash=sha256:cd\n"


def test_a_package_is_in_one_of_both() -> None:
    inputs = Inputs(wheels=WHEELS, wheels_all=WHEELS, requirements=LINES)
    devel, plain = inputs.only({"pytest"}), inputs.without({"pytest"})
    assert (list(devel.wheels), devel.requirements) == ([*WHEELS][:1], LINES.splitlines(keepends=True)[0])
    assert (list(plain.wheels), plain.requirements) == ([*WHEELS][1:], LINES.splitlines(keepends=True)[1])
    assert inputs.without({"jinja2"}).wheels == devel.wheels, "names are normalised"
    assert plain.wheels_all == devel.wheels_all == WHEELS


PINNED, OTHER, MORE = (f"{name}-py3-none-any.whl" for name in ("triton-3.4.0", "triton-3.6.0", "more-1.0"))
FETCHED = Inputs(wheels_all={PINNED: Path("a")}, beside={"gluon": {OTHER: Path("b"), MORE: Path("c")}})


def reads(*wheels: str, beside: str | None = None) -> Step:
    recipe = Recipe(name="x", summary="", platforms=(), outputs=(), wheels=wheels, beside=beside)
    return Step(name="x", kind=Kind.COMPONENT, summary="", key="", inputs=(), recipe=recipe)


def test_a_recipe_reads_the_wheels_of_its_target_s_lock_or_of_the_one_that_it_names() -> None:
    assert needed_wheels(reads("Triton"), FETCHED) == {PINNED: Path("a")}
    assert needed_wheels(reads("Triton", beside="gluon"), FETCHED) == {OTHER: Path("b")}
    assert FETCHED.names == [MORE, PINNED, OTHER]
    assert FETCHED.only({"x"}).beside == FETCHED.without({"x"}).beside == FETCHED.beside


@pytest.mark.parametrize(("wheels", "beside"), [(("more",), None), (("triton", "x"), "gluon"), (("triton",), "sweeps")])
def test_a_wheel_that_the_lock_lacks_is_named(wheels: tuple[str, ...], beside: str | None) -> None:
    with pytest.raises(StepError, match="reads the wheels"):
        needed_wheels(reads(*wheels, beside=beside), FETCHED)


def test_wheels_of_the_locks_that_recipes_name_are_fetched_and_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(lock: locks.Lock, *_: object, **more: object) -> dict[str, Path]:
        return {package.filename: Path(lock.target) for package in lock.wheels("plain")}

    monkeypatch.setattr("grstack.fetch.fetch_wheels", fetch)
    cuda, gluon = (locks.read(ROOT, name, "3.11", "x86_64") for name in ("cuda", "gluon"))
    found = fetching.fetch(cuda, "plain", Path(), Settings(), Console(quiet=True), beside=[gluon])
    ((name, files),) = found.beside.items()
    assert name == "gluon" and set(files.values()) == {Path("gluon")} and files.keys() <= set(found.names)
    assert not files.keys() & found.wheels_all.keys()
    assert "triton==3.4.0 " in found.requirements and "triton==3.6.0" not in found.requirements


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_what_a_devel_variant_alone_has_is_locked(target: str) -> None:
    names = (ROOT / devel_packages(target)).read_text().split()
    assert {"pytest", "hypothesis"} <= set(names)
    for path in sorted((ROOT / "locks").glob(f"{target}-py*.json")):
        lock = locks.read(ROOT, target, *path.stem.removeprefix(f"{target}-py").split("-", 1))
        assert set(names) <= {package.name for package in lock.packages}, path.name
