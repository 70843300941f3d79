"""spec + lock + target + platform -> ordered steps with content keys. Reads files, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from grstack import keys
from grstack.locks import Build, Lock
from grstack.plan.model import Kind, Plan, Step
from grstack.recipes import Recipe, load_all

SOURCES = ("gr_model", "smoke_tests")  # go into the image as they are


def make_plan(
    root: Path,
    *,
    lock: Lock,
    platform: str,
    base: str,
    build: Build,
    components: tuple[str, ...],
    operators: Mapping[str, Sequence[str]],
    tag: str = "",
    home: str = "",
) -> Plan:
    """The plan of one image.

    `operators` names each operator's SoCs; `base` is a digest reference or `bootstrap:<suite>`; `build` says which
    torch wheel is installed (`cpu` from the PyTorch index, `plain` otherwise). Both were resolved before, so the plan
    itself is pure. `tag` and `home`: see Plan.
    """
    recipes = load_all(root, platform, components, operators)
    wheels = _wheels(lock, build)
    bottom = _base(root, lock, base)
    environment = _environment(root, lock, wheels, bottom)
    steps = [wheels, bottom, environment]
    for recipe in recipes:
        steps.append(_component(root, recipe, platform, environment, wheels, steps))
    installed = [s for s in steps if s.recipe is not None and s.recipe.image]
    steps.append(_image(root, lock, platform, environment, installed, tag or platform))
    return Plan(
        target=lock.target,
        platform=platform,
        python=lock.python,
        arch=lock.arch,
        base=base,
        steps=tuple(steps),
        tag=tag,
        home=home,
    )


def _step(*, inputs: list[tuple[str, str]], **fields: object) -> Step:
    return Step(key=keys.combine(inputs), inputs=tuple(sorted(inputs)), **fields)  # type: ignore[arg-type]


def _wheels(lock: Lock, build: Build) -> Step:
    chosen = lock.wheels(build)
    return _step(
        name="wheels",
        kind=Kind.WHEELS,
        summary=f"{len(chosen)} locked wheels for {lock.target}, Python {lock.python}, {lock.arch} (torch: {build})",
        inputs=[(package.filename, package.sha256) for package in chosen],
    )


def _base(root: Path, lock: Lock, base: str) -> Step:
    how = "pulled by digest" if "@sha256:" in base else "pulled by tag: no digest is published"
    how = "bootstrapped from the distribution's packages" if base.startswith("bootstrap:") else how
    how = "this machine" if base.startswith("host:") else how
    files = ["docker/base/packages.txt", "docker/base/bootstrap.sh"]
    if not base.startswith("bootstrap:"):
        files = [
            "docker/base/packages.txt",
            *(f"docker/base/{name}" for name in ("Dockerfile", "apt.sh", "dnf.sh", "packages-rpm.txt")),
        ]
    return _step(
        name="base",
        kind=Kind.BASE,
        summary=f"{base}, {how}",
        inputs=[("base", keys.of_text(base)), ("arch", lock.arch)]
        + [(path, keys.of_tree(root / path)) for path in files],
    )


def _environment(root: Path, lock: Lock, wheels: Step, base: Step) -> Step:
    dockerfile = f"docker/{lock.target}/environment.Dockerfile"
    return _step(
        name="environment",
        kind=Kind.ENVIRONMENT,
        summary=f"Python {lock.python} with the locked packages",
        needs=(wheels.name, base.name),
        inputs=[("wheels", wheels.key), ("base", base.key), (dockerfile, keys.of_tree(root / dockerfile))],
    )


def _component(root: Path, recipe: Recipe, platform: str, environment: Step, wheels: Step, before: list[Step]) -> Step:
    needs = [s for s in before if s.recipe is not None and s.recipe.folder in recipe.needs]
    inputs = [("platform", platform), ("environment", environment.key)]
    inputs += [(step.name, step.key) for step in needs]
    inputs += [("socs", ",".join(recipe.socs))] if recipe.socs else []
    inputs += [(path, keys.of_tree(root / path)) for path in recipe.sources]
    return _step(
        name=recipe.name,
        kind=Kind.COMPONENT,
        summary=recipe.summary,
        needs=(environment.name, *(s.name for s in needs)),
        recipe=recipe,
        inputs=inputs,
    )


def _image(root: Path, lock: Lock, platform: str, environment: Step, components: list[Step], tag: str) -> Step:
    files = [f"docker/{lock.target}", *SOURCES]
    return _step(
        name="image",
        kind=Kind.IMAGE,
        summary=f"grstack/{lock.target}:{tag}",
        needs=(environment.name, *(s.name for s in components)),
        inputs=[("environment", environment.key), ("platform", platform)]
        + [(step.name, step.key) for step in components]
        + [(path, keys.of_tree(root / path)) for path in files],
    )
