"""Removal of what this library wrote, and of nothing else: the folder of the checkpoints is its user's too.

A complete folder has a manifest that names its files. One that is being written has a mark. Files that neither speaks
of stay, and so do folders without both.
"""

from __future__ import annotations

import logging
import re
import shutil
import uuid
from pathlib import Path

from hybrid_torchrec.checkpoint.errors import CorruptCheckpoint, StorageFailure, explained
from hybrid_torchrec.checkpoint.files import names_in, sync_folder
from hybrid_torchrec.checkpoint.manifest import NAME, Manifest

_log = logging.getLogger(__name__)
UNFINISHED = ".hybrid_torchrec-unfinished"
REMOVED = ".removed-"
_DOOMED = re.compile(rf"{re.escape(REMOVED)}((?:full|delta|export)-\d{{12}})-[0-9a-f]{{8}}")
_BEGUN = re.compile(r"\.saving-(?:full|delta|export)-\d{12}")


def mark_unfinished(folder: Path) -> None:
    """Before the first file of a save. An empty file appears at once: no kill leaves half of it."""
    (folder / UNFINISHED).touch()
    sync_folder(folder)


def mark_complete(folder: Path) -> None:
    """Once the manifest is there, which then says what is ours."""
    (folder / UNFINISHED).unlink(missing_ok=True)
    sync_folder(folder)


def remove_folder(path: Path) -> None:
    """Removes a complete folder so that no half of it is ever taken for a whole: first its name, then what is in it.

    Files in it that its manifest does not name stay there. Raises CorruptCheckpoint if the manifest is not readable.
    """
    manifest = Manifest.read(path)
    doomed = path.with_name(f"{REMOVED}{path.name}-{uuid.uuid4().hex[:8]}")
    with explained(path, "removing"):
        path.rename(doomed)
        sync_folder(path.parent)
        _remove_named(doomed, manifest, path)


def remove_torn(path: Path) -> bool:
    """Removes what a killed save or removal left at `path`; False, and it stays, if nothing says that it is ours."""
    if path.is_symlink() or not path.is_dir():
        return False
    names = set(names_in(path))
    doomed = _DOOMED.fullmatch(path.name)
    if NAME in names:
        try:
            manifest = Manifest.read(path)
        except (CorruptCheckpoint, StorageFailure):
            return False
        _remove_named(path, manifest, path.with_name(doomed[1]) if doomed else path)
        return not path.exists()
    if UNFINISHED in names:
        for name in names - {UNFINISHED}:  # the mark goes last: a kill leaves what is still marked
            entry = path / name
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)
        (path / UNFINISHED).unlink(missing_ok=True)
        path.rmdir()
        return True
    if names or not (doomed or _BEGUN.fullmatch(path.name)):
        return False
    path.rmdir()  # killed before the mark, or after the last file
    return True


def _remove_named(folder: Path, manifest: Manifest, place: Path) -> None:
    """The manifest goes last, and the folder too if nothing of others is in it; else it is put back to `place`."""
    for name in manifest.files:
        if Path(name).name == name:
            (folder / name).unlink(missing_ok=True)
    (folder / UNFINISHED).unlink(missing_ok=True)
    (folder / NAME).unlink(missing_ok=True)
    if names_in(folder):
        _give_back(folder, place)
    else:
        folder.rmdir()


def _give_back(folder: Path, place: Path) -> None:
    _log.warning("%s: has files that are not of the checkpoint: %s; they stay", place, ", ".join(names_in(folder)))
    if folder != place and not place.exists():
        folder.rename(place)
