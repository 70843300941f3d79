"""Where this process runs, as far as errors name commands: those of the checkout are not in an image.

Inside a container, whether a folder stays when the container goes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MANIFEST = Path("/opt/grstack/manifest.json")
MARKS = ("/.dockerenv", "/run/.containerenv")
MOUNTS = Path("/proc/self/mountinfo")
LAYERED = ("overlay", "fuse-overlayfs", "aufs", "fuse.fuse-overlayfs")


def inside() -> bool:
    """Whether this is one of our images."""
    return MANIFEST.exists()


def command(arguments: str) -> str:
    """`inv ARGUMENTS`, as it is typed from here."""
    return f"`inv {arguments}` (on the host, in the checkout)" if inside() else f"`inv {arguments}`"


def fetch_data(folder: Path) -> str:
    """How the data set that belongs into `folder` gets there."""
    name = folder.name
    if inside():
        return (
            f"on the host, in the checkout: make fetch-data ARGS={name}; then mount its data folder, docker run "
            f'-v "$PWD/data:/data", or name the folder that holds {name}/: --data-dir FOLDER'
        )
    return f"in a checkout: make fetch-data ARGS={name}; or name the folder that holds {name}/: --data-dir FOLDER"


def pip_install(package: str, module: str) -> str:
    """How a package that is not there comes to `python -m MODULE`. The image's own folders are root's."""
    if inside():
        return (
            f"pip install --target /out/extra {package}, then PYTHONPATH=/out/extra:$PYTHONPATH python -m {module} "
            "with the same arguments"
        )
    return f"pip install {package}"


def goes_with_container(folder: Path) -> bool:
    """Whether what is written there is gone with `docker run --rm`: no file system is mounted on it or above."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    mounts: dict[Path, str] = {}  # the last one on a place hides those before
    for line in lines:
        before, _, after = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split()[4])  # blanks are \\040
        mounts[Path(place)] = after.split()[0]
    root = mounts.get(Path("/"), "")
    if root not in LAYERED and not any(os.path.exists(mark) for mark in MARKS):
        return False
    resolved = folder.resolve()
    on = next(place for place in (resolved, *resolved.parents) if place in mounts or place == Path("/"))
    return on == Path("/") or mounts[on] == "tmpfs"
