"""The keys that any command of this checkout may ask for: of every target, platform, base and build of torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from grstack import host, locks
from grstack.locks import Build
from grstack.plan.make import make_plan
from grstack.plan.model import Plan
from grstack.spec import Base, Versions

BUILDS: tuple[Build, ...] = ("cpu", "plain")


def current_plans(root: Path, versions: Versions, operators: Mapping[str, Sequence[str]], arch: str) -> Iterator[Plan]:
    """Without an engine or a network: each base is taken as pulled, bootstrapped and as this host."""
    for target, python, of in versions.combinations():
        if of != arch or not (root / "docker" / target).is_dir():
            continue
        lock = locks.read(root, target, python, arch)
        platforms = versions.targets[target].platforms
        own = versions.targets[target].base
        bases = {target: own} if own else {name: platform.base for name, platform in platforms.items()}
        for platform, name in bases.items():
            for base in _bases(versions.bases[name]):
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


def _bases(base: Base) -> list[str]:
    bootstrap = [f"bootstrap:{base.bootstrap.suite}"] if base.bootstrap else []
    return [base.reference, *bootstrap, f"host:{host.codename() or 'unknown'}"]
