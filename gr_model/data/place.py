"""Where shards go: never over something else."""

from __future__ import annotations

from pathlib import Path

from gr_model.data.interactions import DataError

MANIFEST = "manifest.json"


def check_place(shards: Path) -> None:
    """DataError where shards that are to be made would take the place of what is no shards, such as the data set."""
    if shards.is_dir() and any(shards.iterdir()) and not (shards / MANIFEST).exists():
        raise DataError(
            f"{shards}: has files that are not shards, so none are made there\n"
            "  next: set GRSTACK_SHARDS to another folder, or move the files away"
        )
