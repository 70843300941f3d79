"""`inv test --changed`: which suites a change can touch, by whose files changed and who stands on whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grstack.errors import UsageError
from grstack.recipes import WHEELS, Recipe
from grstack.run import CommandFailed, Runner

HOST = "tests/unit"
ENGINE = "tests/integration"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A component of the image, or sources that go into it. home: its folders. on: what it stands on when it runs."""

    home: tuple[str, ...]
    suites: tuple[str, ...]
    on: tuple[str, ...] = ()


PARTS = {
    "twin": Part(
        home=("twin/",),
        suites=(
            "twin/tests/opbuild",
            "twin/tests/ascendc",
            "twin/tests/launcher",
            "twin/tests/mutants",
            "twin/tests/sanitizers",
            "twin/tests/runtime",
            "twin/tests/aten",
            "twin/tests/hccl",
            ENGINE,  # built for aarch64, and over two hosts
        ),
    ),
    "ascend_twin": Part(home=("twin/python/",), suites=("twin/tests/package",), on=("twin",)),
    "packing": Part(home=("kernels/packaging/",), suites=()),  # what makes a package, of each operator too
    "operators": Part(
        home=("kernels/operators/",),
        suites=("kernels/operators", "twin/tests/launcher", "twin/tests/mutants"),
        on=("twin", "packing"),
    ),
    "packages": Part(home=("kernels/packaging/",), suites=("kernels/packaging/tests", ENGINE), on=("operators",)),
    "row_math": Part(home=("kernels/row_math/",), suites=()),
    "plugin": Part(
        home=("kernels/gr_ops/",),
        suites=("kernels/gr_ops/tests", "kernels/gr_ops/tests/cuda"),
        on=("operators", "row_math"),
    ),
    "new": Part(home=("grstack/new/",), suites=("grstack/new/tests",), on=("plugin",)),  # skeletons of operators
    "torchrec": Part(home=("patches/torchrec/",), suites=("recipes/torchrec/tests",), on=("plugin",)),
    "nvml_stub": Part(home=("recipes/nvml_stub/",), suites=(ENGINE,)),  # of the image of target cuda
    "gluon": Part(home=("recipes/gluon/",), suites=(ENGINE,)),  # of the same
    "hybrid_torchrec": Part(
        home=("embeddings/hybrid_torchrec/",),
        suites=("embeddings/hybrid_torchrec/tests", "embeddings/hybrid_torchrec/tests/cuda"),
        on=("torchrec",),
    ),
    "torchrec_embcache": Part(
        home=("embeddings/torchrec_embcache/",), suites=("embeddings/torchrec_embcache/tests",), on=("hybrid_torchrec",)
    ),
    "gr_model": Part(
        home=("gr_model/",),
        suites=("gr_model/tests", "gr_model/tests/cuda"),
        on=("hybrid_torchrec", "torchrec_embcache"),
    ),
    "smoke_tests": Part(home=("smoke_tests/",), suites=("smoke_tests/tests",), on=("gr_model",)),
}
# Tests that other suites use too: references, cases, fixtures.
SHARED_TESTS = {
    "kernels/operators/common/tests/": ("kernels/operators", "twin/tests/launcher", "twin/tests/mutants"),
    "twin/tests/launcher/": ("twin/tests/mutants", "twin/tests/sanitizers"),
    "embeddings/hybrid_torchrec/tests/": ("embeddings/torchrec_embcache/tests",),
}
# Pages whose programs a suite runs.
PAGES = {"docs/dynamic-embeddings.md": ("embeddings/hybrid_torchrec/tests",)}
TOOL = ("grstack/", "tasks.py", "docker/", "recipes/", "tests/", "Makefile", "bootstrap.sh")
PAGES_ALONE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "embeddings/README.md", "kernels/README.md")
TEXT = ("docs/", "benchmarks/", "deploy/", ".", *PAGES_ALONE)
IMAGE = (
    "docker/base",
    "docker/environment",
    "docker/npu",
    "docker/devel",
    "grstack/suites.py",
)  # where suites run, and how
COPIED = {"grstack/new/tests": ("kernels", "smoke_tests")}  # into a checkout of the test's own
EVERYTHING = ("versions.yaml", "locks/", "pyproject.toml", "conftest.py", "tests/start/")


def files(root: Path, runner: Runner, since: str = "") -> list[str]:
    """Files that differ from where this branch left main (or from the commit `since`), also those not committed."""
    git = ["git", "-C", str(root)]
    base = since or _left_main(git, runner)
    try:
        names = runner.capture([*git, "diff", "--name-only", "--no-renames", base]).splitlines()
    except CommandFailed:
        raise UsageError(
            f"git does not know the commit '{base}'", next_command="git log --oneline, then inv test --since COMMIT"
        ) from None
    return sorted({*names, *runner.capture([*git, "ls-files", "--others", "--exclude-standard"]).splitlines()})


def _left_main(git: Sequence[str], runner: Runner) -> str:
    for main in ("origin/main", "main"):
        try:
            return runner.capture([*git, "merge-base", "HEAD", main]).strip()
        except CommandFailed:
            continue
    return "HEAD"


def touched(changed: Iterable[str], recipes: Sequence[Recipe], suites: Sequence[str]) -> dict[str, str]:
    """The suites, of `suites`, HOST and ENGINE, that the changed files can touch; each with one of these files.

    A file that no table knows touches everything.
    """
    found: dict[str, str] = {}
    for file in changed:
        names = _suites_of(file, recipes, suites)
        for suite in (*suites, HOST, ENGINE) if names is None else names:
            found.setdefault(suite, file)
    order = (HOST, *suites, ENGINE)
    return {suite: found[suite] for suite in order if suite in found}


def _suites_of(file: str, recipes: Sequence[Recipe], suites: Sequence[str]) -> set[str] | None:
    if file.startswith(EVERYTHING):
        return None
    if "tests" in Path(file).parts[:-1]:
        shared = {suite for folder, more in SHARED_TESTS.items() if file.startswith(folder) for suite in more}
        holding = [suite for suite in (*suites, HOST, ENGINE) if file.startswith(f"{suite}/")]
        if holding:
            return {max(holding, key=len), HOST, *shared}  # the host's tests count suites and read sources
    parts = _parts_of(file, recipes)
    found = {suite for part in _and_above(parts) for suite in PARTS[part].suites}
    found |= {suite for page, more in PAGES.items() if file == page for suite in more}
    if file.startswith(TOOL) and not (file.startswith("tests/golden/") or "/tests/" in file):
        found.add(ENGINE)
    known = bool(parts) or file.startswith(TOOL) or file.startswith(TEXT)
    return {HOST, *found} if known else None


def _parts_of(file: str, recipes: Sequence[Recipe]) -> set[str]:
    """Whose folder it lies in, and whose recipe names it: the plan rebuilds those."""
    homes = {name: home for name, part in PARTS.items() for home in part.home if file.startswith(home)}
    nearest = max((len(home) for home in homes.values()), default=0)
    owners = {name for name, home in homes.items() if len(home) == nearest}
    return owners | {
        recipe.folder
        for recipe in recipes
        if any(file == path or file.startswith(f"{path}/") for path in recipe.sources)
    }


def _and_above(parts: Iterable[str]) -> set[str]:
    found = set(parts)
    while more := {name for name, part in PARTS.items() if found & set(part.on)} - found:
        found |= more
    return found


def sources_of(suite: str) -> tuple[str, ...]:
    """What can touch a suite of the image: its parts, what those stand on, the image, and what touches everything."""
    parts = {name for name, part in PARTS.items() if suite in part.suites}
    while more := {below for name in parts for below in PARTS[name].on} - parts:
        parts |= more
    homes = {home for name in parts for home in PARTS[name].home}
    recipes = {f"recipes/{name}" for name in parts}
    return tuple(sorted({*homes, *recipes, WHEELS, *COPIED.get(suite, ()), *IMAGE, *EVERYTHING}))


def tests_of(suite: str) -> tuple[str, ...]:
    """The folders of a suite's own tests and of those that it shares."""
    return (suite, *(folder for folder, suites in SHARED_TESTS.items() if suite in suites))


def why(chosen: Mapping[str, str]) -> list[str]:
    width = max((len(suite) for suite in chosen), default=0)
    return [f"  {suite:{width}}  {file}" for suite, file in chosen.items()]
