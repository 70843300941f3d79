"""spec + lock + target + platform -> ordered steps with content keys. Reads files, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from grstack import keys, locks
from grstack.locks import Build, Lock
from grstack.plan.model import Kind, Plan, Step
from grstack.recipes import Recipe, load_all

SOURCES = ("gr_model", "smoke_tests")  # go into the image as they are
ENVIRONMENT = "docker/environment"
DEVEL = "docker/devel"


def devel_packages(target: str) -> str:
    """The file that names the locked packages which the devel variant alone has. A target without it has all in both:
    the users of npu run their tests on the twin, and `inv accept` on their devices, in the plain image."""
    return f"docker/{target}/devel.txt"


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
    devel: bool = False,
) -> Plan:
    """The plan of one image.

    `operators` names each operator's SoCs; `base` is a digest reference or `bootstrap:<suite>`; `build` says which
    torch wheel is installed (`cpu` from the PyTorch index, `plain` otherwise). Both were resolved before, so the plan
    itself is pure. `devel`: the variant with build tools and tests; on the host, where they are anyway, the same.
    `tag` and `home`: see Plan.
    """
    recipes = load_all(root, platform, components, operators)
    on_host = base.startswith("host:")
    whole = on_host or platform == "cann"  # CANN calls the compilers of its image
    wheels = _wheels(lock, build)
    bottom = _base(root, lock, base)
    environment = _environment(root, lock, wheels, bottom, whole=whole)
    steps = [wheels, bottom, environment]
    if not whole:
        steps.append(_builder(root, environment, bottom))
    for recipe in recipes:
        steps.append(_component(root, lock, recipe, platform, environment, steps, home))
    installed = [s for s in steps if s.recipe is not None and s.recipe.image]
    steps.append(_image(root, lock, platform, environment, installed, tag or platform, home))
    if devel and not on_host:
        steps.append(_devel(root, lock.target, steps[-1], bottom))
    return Plan(
        target=lock.target,
        platform=platform,
        python=lock.python,
        arch=lock.arch,
        base=base,
        steps=tuple(steps),
        tag=tag,
        home=home,
        whole=whole,
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
    if base.startswith("bootstrap:ubuntu/"):
        files.append("docker/base/packages-ubuntu.txt")
    if not base.startswith("bootstrap:"):
        files = [
            "docker/base/packages.txt",
            *(
                f"docker/base/{name}"
                for name in ("Dockerfile", "apt.sh", "dnf.sh", "packages-rpm.txt", "packages-ubuntu.txt")
            ),
        ]
    return _step(
        name="base",
        kind=Kind.BASE,
        summary=f"{base}, {how}",
        inputs=[("base", keys.of_text(base)), ("arch", lock.arch)]
        + [(path, keys.of_tree(root / path)) for path in files],
    )


def _environment(root: Path, lock: Lock, wheels: Step, base: Step, *, whole: bool) -> Step:
    files = [f"{ENVIRONMENT}/{name}" for name in ("Dockerfile", "install.sh", "runtime.sh")]
    files.append(f"docker/{lock.target}/keep.txt")
    if (root / devel_packages(lock.target)).exists():
        files.append(devel_packages(lock.target))
    return _step(
        name="environment",
        kind=Kind.ENVIRONMENT,
        summary=f"Python {lock.python} with the locked packages",
        needs=(wheels.name, base.name),
        inputs=[("wheels", wheels.key), ("base", base.key), ("system", "whole" if whole else "runtime")]
        + [(path, keys.of_tree(root / path)) for path in files],
    )


def _builder(root: Path, environment: Step, base: Step) -> Step:
    path = f"{ENVIRONMENT}/builder.Dockerfile"
    return _step(
        name="builder",
        kind=Kind.BUILDER,
        summary="the environment with the base's build tools",
        needs=(environment.name, base.name),
        inputs=[("environment", environment.key), (path, keys.of_tree(root / path))],
    )


def _component(
    root: Path, lock: Lock, recipe: Recipe, platform: str, environment: Step, before: list[Step], home: str
) -> Step:
    place = next((step for step in before if step.kind is Kind.BUILDER), environment)
    needs = [s for s in before if s.recipe is not None and s.recipe.folder in recipe.needs]
    inputs = [("platform", platform), (place.name, place.key)]
    inputs += [(step.name, step.key) for step in needs]
    inputs += [("socs", ",".join(recipe.socs))] if recipe.socs else []
    inputs += [("home", home)] if home else []
    inputs += _beside(root, lock, recipe)
    inputs += [(path, keys.of_tree(root / path)) for path in recipe.sources]
    return _step(
        name=recipe.name,
        kind=Kind.COMPONENT,
        summary=recipe.summary,
        needs=(place.name, *(s.name for s in needs)),
        recipe=recipe,
        inputs=inputs,
    )


def _beside(root: Path, lock: Lock, recipe: Recipe) -> list[tuple[str, str]]:
    """The wheels that it reads of another lock than the target's, whose own are in the environment's key."""
    if not recipe.beside:
        return []
    other = locks.read(root, recipe.beside, lock.python, lock.arch)
    return [(package.filename, package.sha256) for package in other.packages if recipe.reads(package.filename)]


def _image(
    root: Path, lock: Lock, platform: str, environment: Step, components: list[Step], tag: str, home: str
) -> Step:
    files = [f"docker/{lock.target}", *SOURCES]
    return _step(
        name="image",
        kind=Kind.IMAGE,
        summary=f"grstack/{lock.target}:{tag}",
        needs=(environment.name, *(s.name for s in components)),
        inputs=[("environment", environment.key), ("platform", platform)]
        + ([("home", home)] if home else [])
        + [(step.name, step.key) for step in components]
        + [(path, keys.of_tree(root / path)) for path in files],
    )


def _devel(root: Path, target: str, image: Step, base: Step) -> Step:
    packages = ("wheels",) if (root / devel_packages(target)).exists() else ()
    return _step(
        name="devel",
        kind=Kind.DEVEL,
        summary=f"{image.summary}-devel",
        needs=(image.name, base.name, *packages),
        inputs=[("image", image.key), (DEVEL, keys.of_tree(root / DEVEL))]
        + [(f"{path}, with tests", keys.of_tree(root / path, tests=True)) for path in SOURCES],
    )
