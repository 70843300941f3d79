"""inv test --changed: which suites a change can touch. Expected sets are written out, not calculated."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from grstack import changed, spec, suites
from grstack.errors import UsageError
from grstack.recipes import Recipe, load_all
from grstack.run import Runner

ROOT = Path(__file__).resolve().parents[2]
HYBRID = {"embeddings/hybrid_torchrec/tests", "embeddings/hybrid_torchrec/tests/cuda"}
MODEL = {"gr_model/tests", "gr_model/tests/cuda", "smoke_tests/tests"}
GR_OPS = {"kernels/gr_ops/tests", "kernels/gr_ops/tests/cuda", "grstack/new/tests"}
ABOVE_GR_OPS = {"recipes/torchrec/tests", "embeddings/torchrec_embcache/tests", *HYBRID, *MODEL}
HOST, ENGINE = "tests/unit", "tests/integration"


@pytest.fixture(scope="module")
def recipes() -> list[Recipe]:
    versions = spec.load(ROOT / "versions.yaml")
    components = tuple(file.parent.name for file in sorted((ROOT / "recipes").glob("*/recipe.yaml")))
    return load_all(ROOT, "twin", components, dict.fromkeys(versions.operators, ()))


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("README.md", {HOST}),
        ("docs/dynamic-embeddings.md", {HOST, "embeddings/hybrid_torchrec/tests"}),
        ("benchmarks/twin.py", {HOST}),
        ("tests/unit/test_run.py", {HOST}),
        ("tests/integration/test_hosts.py", {HOST, ENGINE}),
        ("grstack/run.py", {HOST, ENGINE}),
        ("smoke_tests/runner.py", {HOST, "smoke_tests/tests"}),
        ("gr_model/train.py", {HOST, *MODEL}),
        ("gr_model/tests/test_config.py", {HOST, "gr_model/tests"}),
        ("embeddings/torchrec_embcache/csrc/file.cpp", {HOST, "embeddings/torchrec_embcache/tests", *MODEL}),
        (
            "embeddings/hybrid_torchrec/tests/conftest.py",
            {HOST, "embeddings/hybrid_torchrec/tests", "embeddings/torchrec_embcache/tests"},
        ),
        (
            "embeddings/hybrid_torchrec/tests/cuda/test_group.py",
            {HOST, "embeddings/hybrid_torchrec/tests/cuda", "embeddings/torchrec_embcache/tests"},
        ),
        ("kernels/gr_ops/csrc/hstu/cpu.cpp", {HOST, *GR_OPS, *ABOVE_GR_OPS}),
        ("recipes/wheels/native_wheel.py", {HOST, ENGINE, "twin/tests/package", *GR_OPS, *ABOVE_GR_OPS}),
        ("patches/torchrec/0001-npu-release-metadata.patch", ABOVE_GR_OPS | {HOST}),
        ("twin/tests/aten/conftest.py", {HOST, "twin/tests/aten"}),
        (
            "twin/tests/launcher/workshop.py",
            {HOST, "twin/tests/launcher", "twin/tests/mutants", "twin/tests/sanitizers"},
        ),
        (
            "kernels/packaging/install.sh",
            {
                HOST,
                ENGINE,
                "kernels/packaging/tests",
                "kernels/operators",
                "twin/tests/launcher",
                "twin/tests/mutants",
                *GR_OPS,
                *ABOVE_GR_OPS,
            },
        ),
    ],
)
def test_what_a_file_touches(recipes: list[Recipe], file: str, expected: set[str]) -> None:
    assert (ROOT / file).exists()
    assert set(changed.touched([file], recipes, suites.IN_IMAGE)) == expected


@pytest.mark.parametrize("file", ["twin/runtime/acl/device.h", "versions.yaml", "locks/tools.txt", "a-new-folder/x"])
def test_what_everything_stands_on_touches_everything(recipes: list[Recipe], file: str) -> None:
    assert set(changed.touched([file], recipes, suites.IN_IMAGE)) == {HOST, ENGINE, *suites.IN_IMAGE}


def test_every_tracked_file_is_known_and_every_suite_is_touched_by_a_part(recipes: list[Recipe]) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    unknown = [
        file
        for file in tracked
        if file
        and changed._suites_of(file, recipes, suites.IN_IMAGE) is None
        and not file.startswith(changed.EVERYTHING)
    ]
    assert unknown == []
    assert {suite for part in changed.PARTS.values() for suite in part.suites} == {*suites.IN_IMAGE, ENGINE}
    assert {recipe.folder for recipe in recipes} <= changed.PARTS.keys()
    assert {HOST, ENGINE} <= {*suites.ON_HOST, *suites.WITH_ENGINE}


def test_the_reason_is_the_first_file(recipes: list[Recipe]) -> None:
    found = changed.touched(["gr_model/train.py", "smoke_tests/runner.py"], recipes, suites.IN_IMAGE)
    assert found["smoke_tests/tests"] == "gr_model/train.py"
    assert changed.why(found)[0].split() == [HOST, "gr_model/train.py"]


def test_changed_files_are_those_since_main_committed_or_not(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        return subprocess.run(
            ["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True, text=True
        ).stdout

    def write(name: str) -> None:
        (tmp_path / name).write_text(name)

    runner = Runner(Console(file=io.StringIO()))
    git("init", "-q", "-b", "main")
    (tmp_path / ".gitignore").write_text("ignored\n")
    write("old")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "mine")
    write("committed")
    git("add", "-A")
    git("commit", "-qm", "two")
    git("mv", "old", "renamed")
    write("untracked")
    write("ignored")
    assert changed.files(tmp_path, runner) == ["committed", "old", "renamed", "untracked"]
    assert changed.files(tmp_path, runner, "HEAD") == ["old", "renamed", "untracked"]
    with pytest.raises(UsageError, match="does not know the commit 'nothing'"):
        changed.files(tmp_path, runner, "nothing")
