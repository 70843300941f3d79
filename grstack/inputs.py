"""The wheels that steps read, fetched and sorted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from grstack import fetch as fetching
from grstack.engines import Inputs
from grstack.locks import Build, Lock
from grstack.network import Settings


def fetch(
    lock: Lock, build: Build, wheels: Path, settings: Settings, console: Console, beside: Iterable[Lock] = ()
) -> Inputs:
    """Downloads what the locks name (or finds it in the folder `wheels`), verified. `beside`: whom recipes name."""
    files = fetching.fetch_wheels(lock, wheels, settings, build=build, console=console)
    chosen = lock.wheels(build)
    installed = {p.filename for p in chosen if p.installed}
    return Inputs(
        wheels={name: path for name, path in files.items() if name in installed},
        wheels_all=files,
        beside={
            one.target: fetching.fetch_wheels(one, wheels, settings, build="plain", console=console) for one in beside
        },
        requirements="".join(f"{p.requirement}\n" for p in chosen if p.installed),
    )
