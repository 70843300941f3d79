"""Which of the fetched wheels an environment takes, and which its devel variant."""

from __future__ import annotations

from pathlib import Path

import pytest

from grstack import locks
from grstack.engines import Inputs
from grstack.plan.make import devel_packages

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


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_what_a_devel_variant_alone_has_is_locked(target: str) -> None:
    names = (ROOT / devel_packages(target)).read_text().split()
    assert {"pytest", "hypothesis"} <= set(names)
    for path in sorted((ROOT / "locks").glob(f"{target}-py*.json")):
        lock = locks.read(ROOT, target, *path.stem.removeprefix(f"{target}-py").split("-", 1))
        assert set(names) <= {package.name for package in lock.packages}, path.name
