"""What a run keeps of its data: the ids behind the item numbers of its model, and what its files held.

OUT/items.parquet has in row n of column "item" the id of item n as the files have it. OUT/data.json names the data set
and the SHA-256 of what a user's own files hold: with other contents the same numbers would mean other items.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from gr_model.common import files
from gr_model.data.interactions import DataError, Interactions
from gr_model.run import checkpoint
from gr_model.run.leftovers import DATA, ITEMS


def keep(out: Path, data: Interactions) -> None:
    """Written by the process that writes the run, when it begins or goes on."""
    note = {"name": data.name, "items": data.items, "users": len(data.users), "content": data.content}
    files.write_text(out / DATA, json.dumps(note, indent=1) + "\n")
    if data.item_ids is not None:
        with files.replacing(out / ITEMS) as copy, data.item_ids.open("rb") as ids:
            shutil.copyfileobj(ids, copy)


def check(going_on_from: Path | None, data: Interactions) -> str:
    """The content that the run keeps to; DataError where a checkpoint is of a run whose files held something else.

    Runs of versions before, without a note, are let through.
    """
    if going_on_from is None or going_on_from.parent.name != checkpoint.FOLDER:
        return data.content
    home = going_on_from.parent.parent
    before = _read(home / DATA)
    if before is not None and before.get("content", "") != data.content:
        raise DataError(
            f"{data.name}: holds other rows than when run {home} began, so its item numbers mean other items\n"
            "  next: put the file back as it was, or begin a new run: the same settings with --config and another --out"
        )
    return data.content


def item_ids(run: Path) -> list[str]:
    """The ids behind the item numbers of the run's model. DataError where the run has kept none."""
    path = run / ITEMS
    if not path.is_file():
        raise DataError(f"{path}: no such file; the run's data set has item numbers only, or an older version made it")
    return _ids(path)


def item_ids_of(data: Interactions) -> list[str]:
    """Those of a data set; none where it has item numbers only."""
    return _ids(data.item_ids) if data.item_ids else []


def _ids(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    ids: list[str] = pq.read_table(path)["item"].to_pylist()
    return ids


def _read(path: Path) -> dict[str, Any] | None:
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataError(f"{path}: not readable ({error}); put it back, or take another run") from None
    return note if isinstance(note, dict) else None
