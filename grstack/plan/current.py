"""The plans that any command of this checkout may ask for: every target, Python, platform, base, build of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from grstack import locks
from grstack.locks import Build
from grstack.plan.make import make_plan
from grstack.plan.model import Plan
from grstack.spec import Base, Versions

BUILDS: tuple[Build, ...] = ("cpu", "plain")


def current_plans(
    root: Path,
    versions: Versions,
    operators: Mapping[str, Sequence[str]],
    arch: str,
    bases: Callable[[Base, str], set[str]],
) -> Iterator[Plan]:
    """`bases` names all that a base may be on a platform: pulled, bootstrapped, this host."""
    for target, python, of, cann in versions.combinations():
        if of != arch or not (root / "docker" / target).is_dir():
            continue
        lock = locks.read(root, target, python, arch, cann)
        for platform, tag, named in _bases(versions, target, cann):
            for base in sorted(bases(named, platform)):
                for build in BUILDS:
                    yield make_plan(  # the devel variant has every step of the plain one
                        root,
                        lock=lock,
                        platform=platform,
                        base=base,
                        build=build,
                        components=versions.targets[target].components,
                        operators=operators,
                        tag=tag,
                        home=named.home or "",
                        devel=True,
                    )


def _bases(versions: Versions, target: str, cann: str) -> Iterator[tuple[str, str, Base]]:
    """Platform, tag and base: those of the target itself, and those that `--base` may name for this CANN."""
    wanted = versions.targets[target]
    if wanted.base:
        yield target, "", versions.bases[wanted.base]
    for name, platform in wanted.platforms.items() if not cann else ():
        yield name, "", versions.bases[platform.base]
    if toolkit := wanted.platforms.get("cann"):
        for name, base in versions.bases.items():
            if base.cann == (cann or toolkit.cann):
                yield "cann", name, base
