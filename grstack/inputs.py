"""The wheels that steps read, fetched and sorted."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from grstack import fetch as fetching
from grstack.engines import Inputs
from grstack.locks import Build, Lock
from grstack.network import Settings


def fetch(lock: Lock, build: Build, wheels: Path, settings: Settings, console: Console) -> Inputs:
    """Downloads what the lock names (or finds it in the folder `wheels`), verified."""
    files = fetching.fetch_wheels(lock, wheels, settings, build=build, console=console)
    chosen = lock.wheels(build)
    installed = {p.filename for p in chosen if p.installed}
    return Inputs(
        wheels={name: path for name, path in files.items() if name in installed},
        wheels_all=files,
        requirements="".join(f"{p.requirement}\n" for p in chosen if p.installed),
    )
