"""The plan of the fixture project and of this repository, as text: a change of what a build does shows in review."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from grstack import locks, spec
from grstack.engines.upstream import Upstream
from grstack.locks import Build
from grstack.network import Settings
from grstack.paths import Paths
from grstack.plan import make_plan
from grstack.plan.explain import as_data
from grstack.run import Runner
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project
from tests.store import Store

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("platform", ["twin", "cann"])
def test_plan_with_keys(tmp_path: Path, platform: str, snapshot: SnapshotAssertion) -> None:
    root = make_project(tmp_path)
    plan = make_plan(
        root,
        lock=make_lock(),
        platform=platform,
        base="debian@sha256:0",
        build="plain",
        components=COMPONENTS,
        operators=OPERATORS,
    )
    assert json.dumps(as_data(plan), indent=1) == snapshot


@pytest.mark.parametrize("platform", ["twin", "cann"])
def test_plan_of_this_repository_without_keys(tmp_path: Path, platform: str, snapshot: SnapshotAssertion) -> None:
    assert plan_without_keys(tmp_path, "npu", platform) == snapshot


def test_plan_of_the_cpu_image_without_keys(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    assert plan_without_keys(tmp_path, "cpu", "cpu") == snapshot


def test_plan_of_the_cuda_image_without_keys(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    assert plan_without_keys(tmp_path, "cuda", "cuda", "plain") == snapshot


def plan_without_keys(tmp_path: Path, name: str, platform: str, build: Build = "cpu") -> str:
    versions = spec.load(ROOT / "versions.yaml")
    target = versions.targets[name]
    on = target.platforms[platform].base if target.platforms else target.base
    assert on is not None
    empty = Upstream(Paths(root=tmp_path, cache=tmp_path), Runner(Console()), Settings(), Store(), Path("docker"))
    base = empty.resolve(versions.bases[on], act=False)
    socs = {name: operator.socs for name, operator in versions.operators.items()}
    lock = locks.read(ROOT, name, "3.11", "x86_64")
    plan = make_plan(
        ROOT,
        lock=lock,
        platform=platform,
        base=base,
        build=build,
        components=target.components,
        operators=socs,
    )
    steps = [f"{step.name} <- {' '.join(step.needs)} : {step.summary}" for step in plan.steps]
    return "\n".join([plan.base, *steps])


@pytest.mark.parametrize("build", ["cpu", "plain"])
def test_packages_of_this_repository_s_environment(build: Build, snapshot: SnapshotAssertion) -> None:
    """triton is in both: the kernels' tests run in its interpreter. The plain torch alone brings CUDA's libraries."""
    assert packages("npu", build) == snapshot


def test_packages_of_the_cpu_image(snapshot: SnapshotAssertion) -> None:
    """Neither triton nor, with the +cpu wheel, CUDA's libraries; of the plain build those are all that is more."""
    small = packages("cpu", "cpu")
    assert small == snapshot
    more = {line.split("==")[0] for line in set(packages("cpu", "plain").split("\n")) - set(small.split("\n"))}
    assert more - {"torch"} and all(name.startswith("nvidia-") for name in more - {"torch"})


def packages(target: str, build: Build) -> str:
    wheels = locks.read(ROOT, target, "3.11", "x86_64").wheels(build)
    return "\n".join(p.requirement.split(" --")[0] for p in wheels)
