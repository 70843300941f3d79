"""The SoCs of versions.yaml and of the operators' definitions, and how they reach a build."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grstack import operators, spec
from grstack.engines.artefacts import build_environment
from grstack.errors import SpecError
from grstack.plan import make_plan
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = """
        // this->AICore().AddConfig("ascend310p");
        /* AddConfig("ascend910_95") */
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig(
            "ascend910_93", config);
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    host = tmp_path / "kernels/operators/scale/op_host"
    host.mkdir(parents=True)
    (host / "scale.cpp").write_text(DEFINITION)
    return tmp_path


def test_every_operator_of_this_repository_agrees_with_its_definition() -> None:
    versions = spec.load(ROOT / "versions.yaml")
    operators.check(ROOT, {name: operator.socs for name, operator in versions.operators.items()})
    folders = {path.parent.name for path in ROOT.glob("kernels/operators/*/op_host")}
    assert folders == set(versions.operators)


def sources(operator: str) -> str:
    """Of its kernels, with the shared headers that they include."""
    common = ROOT / "kernels/operators/common"
    found: dict[Path, str] = {}
    todo = sorted((ROOT / "kernels/operators" / operator / "op_kernel").iterdir())
    while todo:
        path = todo.pop()
        if path not in found:
            found[path] = path.read_text(encoding="utf-8")
            names = re.findall(r'#include "(\w+\.h)"', found[path])
            todo += [common / name for name in names if (common / name).is_file()]
    return "".join(found.values())


def test_the_reasons_why_an_operator_is_refused_for_310p_are_true() -> None:
    """What a reason names is in the kernels; when the last use of it goes, so must the reason."""
    calls = {
        "DataCopyPad": "DataCopyPad(",
        "SyncAll": "SyncAll()",
        "cube and vector cores apart": "KERNEL_TYPE_MIX_AIC_1_2",
    }
    for name, operator in spec.load(ROOT / "versions.yaml").operators.items():
        reason = operator.refused["ascend310p"]
        named = [what for what in calls if what in reason]
        assert named and all(calls[what] in sources(name) for what in named), (name, reason)


def test_comments_declare_nothing(root: Path) -> None:
    assert operators.declared_socs(root, "scale") == {"ascend910b", "ascend910_93"}
    operators.check(root, {"scale": ("ascend910_93", "ascend910b")})


@pytest.mark.parametrize(
    ("socs", "message"),
    [
        (("ascend910b", "ascend910_93", "ascend310p"), "has ascend310p, ascend910_93, ascend910b, its definition"),
        (("ascend910b",), "versions.yaml has ascend910b, its definition declares ascend910_93, ascend910b"),
    ],
)
def test_too_many_and_too_few_are_errors(root: Path, socs: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        operators.check(root, {"scale": socs})


def test_every_fault_is_reported_at_once(root: Path) -> None:
    with pytest.raises(SpecError, match="(?s)gone has no.*operator scale"):
        operators.check(root, {"gone": ("ascend910b",), "scale": ("ascend910b",)})


def test_socs_reach_the_build_and_its_key(tmp_path: Path) -> None:
    project = make_project(tmp_path)

    def step(socs: tuple[str, ...]):
        chosen = {**OPERATORS, "one": socs}
        plan = make_plan(
            project,
            lock=make_lock(),
            platform="twin",
            base="b",
            build="plain",
            components=COMPONENTS,
            operators=chosen,
        )
        return plan.step("operators/one")

    both, single = step(("ascend910b", "ascend910_93")), step(("ascend910b",))
    places = dict.fromkeys(("source", "out", "deps", "wheels", "python"), "/x")
    assert build_environment(both, "twin", "x86_64", places)["GRSTACK_SOCS"] == "ascend910b,ascend910_93"
    assert build_environment(single, "twin", "x86_64", places)["GRSTACK_SOCS"] == "ascend910b"
    assert both.key != single.key
