"""Data sets by name. To add one: a module with `load(folder) -> Interactions`, and a line here."""

from __future__ import annotations

from pathlib import Path

from gr_model.data import ml_100k
from gr_model.data.interactions import DataError, Interactions

DATASETS = {"ml-100k": ml_100k.load}

__all__ = ["DATASETS", "DataError", "Interactions", "load"]


def load(name: str, folder: Path) -> Interactions:
    """Reads data set `name` from `folder/name`."""
    if name not in DATASETS:
        raise DataError(f"unknown data set {name!r}; valid: {', '.join(DATASETS)}")
    return DATASETS[name](folder / name)
