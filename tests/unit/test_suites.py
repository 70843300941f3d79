"""The suites of `inv test` against what the image holds."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from grstack import locks, spec, suites

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
