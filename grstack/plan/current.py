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
    for target, python, of in versions.combinations():
        if of != arch or not (root / "docker" / target).is_dir():
            continue
        lock = locks.read(root, target, python, arch)
        own = versions.targets[target].base
        platforms = {name: platform.base for name, platform in versions.targets[target].platforms.items()}
        for platform, name in ({target: own} if own else platforms).items():
            for base in sorted(bases(versions.bases[name], platform)):
                for build in BUILDS:
                    yield make_plan(
                        root,
                        lock=lock,
                        platform=platform,
                        base=base,
                        build=build,
                        components=versions.targets[target].components,
                        operators=operators,
                    )
