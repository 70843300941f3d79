"""Takes one vendor away: by its own uninstaller, or with --force as a directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from grstack.errors import PackageError, UsageError
from grstack.opp import config
from grstack.opp.search import Candidate
from grstack.run import CommandFailed, Runner


def remove(found: tuple[Candidate, ...], name: str, runner: Runner, *, force: bool = False) -> Path:
    """Returns the directory that is gone."""
    candidate = next((c for c in found if c.vendor.name == name), None)
    if candidate is None:
        raise UsageError.unknown(
            "vendor", name, {c.vendor.name for c in found} or {"none"}, next_command="inv opp list"
        )
    place = Path(candidate.vendor.path)
    script = place / "scripts/uninstall.sh"
    if not os.access(place.parent, os.W_OK):
        raise PackageError(
            f"{place.parent} cannot be written",
            next_command=f"sudo {script}" if script.exists() else f"ls -ld {place.parent}",
        )
    if not place.exists():  # only load_priority still names it
        with config.locked(place.parent):
            config.take_out(place.parent, name)
    elif script.is_file():
        try:
            runner.capture(["bash", str(script), "--quiet"])
        except CommandFailed as error:
            raise PackageError(
                f"{name} was not removed: {' '.join(error.tail)}", where=str(place), next_command=f"bash {script}"
            ) from error
    elif force:
        with config.locked(place.parent):
            config.take_out(place.parent, name)
            shutil.rmtree(place)
    else:
        raise PackageError(
            f"{name} has no scripts/uninstall.sh, so what else its package wrote is not known",
            where=str(place),
            next_command=f"inv opp remove {name} --force (removes the directory and its place in load_priority)",
        )
    return place
