"""Export: tables as plain files for serving, and a reader that maps them into memory.

    export-<step>/MANIFEST.json
    export-<step>/<table>.shard-00000-of-00002.part-00000.safetensors
        ids int64 (R,), ascending; weights (R, D) float32, float16, bfloat16, or int8 with `scale` float32 (R,)

Any reader of safetensors reads them. Optimizer state stays behind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from hybrid_torchrec.checkpoint.collective import Collective
from hybrid_torchrec.checkpoint.errors import TableMismatch, explained
from hybrid_torchrec.checkpoint.files import checksum_of_file
from hybrid_torchrec.checkpoint.folder import CheckpointFolder
from hybrid_torchrec.checkpoint.manifest import FileSum, Manifest
from hybrid_torchrec.checkpoint.parts import Rows
from hybrid_torchrec.checkpoint.tables import TableShard, freeze

Sources = Mapping[str, tuple[Rows, int, int]]  # table: rows, shard, shards
Written = tuple[dict[str, FileSum], dict[str, dict[str, Any]]]  # files, and what the tables are
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "int8": torch.int8}


def export(
    root: str | os.PathLike[str],
    step: int,
    tables: Mapping[str, TableShard],
    *,
    dtype: str | None = None,
    group: dist.ProcessGroup | None = None,
) -> Path:
    """Writes `tables` to root/export-<step>, whole or not at all; every rank of `group` calls it with its shards.

    `dtype`: one of DTYPES; None keeps each table's own. Returns the folder. Not during a training step of the tables.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    sources = {name: (freeze(shard), shard.shard, shard.shards) for name, shard in tables.items()}
    return write_rows(root, step, sources, dtype=dtype, group=group)


def write_rows(
    root: str | os.PathLike[str],
    step: int,
    sources: Sources,
    *,
    dtype: str | None = None,
    group: dist.ProcessGroup | None = None,
) -> Path:
    """As export(), from {table: (rows, shard, shards)}."""
    folder, ranks = CheckpointFolder(root), Collective(group)
    temporary = folder.temporary("export", step)
    with ExitStack() as held:

        def begin(_: list[None]) -> None:
            held.enter_context(folder.lock())
            folder.begin("export", step)

        ranks.all_reduce("begin", lambda: None, begin)
        return ranks.all_reduce(
            "export", lambda: _write(temporary, sources, dtype), lambda parts: _finish(folder, temporary, step, parts)
        )


def write_alone(root: str | os.PathLike[str], step: int, sources: Sources, *, dtype: str | None = None) -> Path:
    """As write_rows(), by this process alone, whatever ranks there are."""
    folder = CheckpointFolder(root)
    with folder.lock():
        temporary = folder.begin("export", step)
        return _finish(folder, temporary, step, [_write(temporary, sources, dtype)])


class ServingTable:
    """One exported table, read where it lies: rows stay on disk until they are looked up; 16 bytes of memory per id.

    `verify` compares sizes and checksums first. Raises CorruptCheckpoint, TableMismatch. Safe from any thread.
    """

    def __init__(self, folder: str | os.PathLike[str], table: str, *, verify: bool = True) -> None:
        self.folder = Path(folder)
        manifest = Manifest.read(self.folder)
        if table not in manifest.tables:
            raise TableMismatch(f"{self.folder}: no table {table!r}; there are: {', '.join(sorted(manifest.tables))}")
        if verify:
            manifest.verify(self.folder)
        self.info = manifest.tables[table]
        self.default = torch.tensor(self.info["default"], dtype=torch.float32)
        own = re.compile(rf"{re.escape(_file_name(table))}\.shard-\d+-of-\d+\.part-\d+\.safetensors")
        names = sorted(name for name in manifest.files if own.fullmatch(name))
        self._parts = [_open(self.folder / name) for name in names]
        ids = [part["ids"].numpy() for part in self._parts]
        every = np.concatenate(ids) if ids else np.empty(0, np.int64)
        order = np.argsort(every, kind="stable")
        self._ids = every[order]
        self._place = order
        self._starts = np.cumsum([0, *map(len, ids)])

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self) -> Tensor:
        """int64 (R,), ascending."""
        return torch.from_numpy(self._ids)

    def lookup(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """ids int64 (L,) -> float32 (L, D), bool (L,) which ids are there; the others get the table's default row."""
        wanted = ids.numpy()
        at = np.minimum(np.searchsorted(self._ids, wanted), max(len(self._ids) - 1, 0))
        found = self._ids[at] == wanted if len(self._ids) else np.zeros(len(wanted), bool)
        rows = self.default.expand(len(wanted), -1).clone()
        places = self._place[at[found]] if len(self._ids) else np.empty(0, np.int64)
        parts = np.searchsorted(self._starts, places, side="right") - 1
        targets = np.flatnonzero(found)
        for index in np.unique(parts):
            mine = parts == index
            part, inside = self._parts[index], torch.from_numpy(places[mine] - self._starts[index])
            values = part["weights"][inside].float()
            if "scale" in part:
                values *= part["scale"][inside, None]
            rows[torch.from_numpy(targets[mine])] = values
        return rows, torch.from_numpy(found)


def quantised(weights: Tensor) -> tuple[Tensor, Tensor]:
    """(R, D) -> int8 (R, D) and float32 (R,): weights = int8 * scale to within scale / 2, the row's largest exactly."""
    weights = weights.float()
    scale = weights.abs().amax(1) / 127 if weights.shape[1] else weights.new_zeros(len(weights))
    divisor = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (weights / divisor[:, None]).round().to(torch.int8), scale


def _file_name(table: str) -> str:
    return quote(table, safe="")


def _write(folder: Path, sources: Sources, dtype: str | None) -> Written:
    files: dict[str, FileSum] = {}
    for name, (rows, shard, shards) in sources.items():
        files.update(_write_table(folder, f"{_file_name(name)}.shard-{shard:05d}-of-{shards:05d}", rows, dtype))
    about = {name: _about(rows, dtype) | {"shares": [[shard, of]]} for name, (rows, shard, of) in sources.items()}
    return files, about


def _finish(folder: CheckpointFolder, temporary: Path, step: int, parts: list[Written]) -> Path:
    files = {name: total for part, _ in parts for name, total in part.items()}
    tables: dict[str, dict[str, Any]] = {}
    for _, about in parts:
        for name, entry in about.items():
            table = tables.setdefault(name, {**entry, "rows": 0, "shares": []})
            table["rows"] += entry["rows"]
            table["shares"] += entry["shares"]
    Manifest("export", step, len(parts), files, tables=tables).write(temporary)
    return folder.commit(temporary)


def _write_table(folder: Path, prefix: str, rows: Rows, dtype: str | None) -> dict[str, FileSum]:
    files = {}
    for part, (first, last) in enumerate(rows.parts()):
        batch = rows.read(first, last).sorted_by_id()
        tensors = {"ids": batch.ids.contiguous()}
        if dtype == "int8":
            tensors["weights"], tensors["scale"] = quantised(batch.weights)
        else:
            tensors["weights"] = batch.weights.to(DTYPES[dtype] if dtype else batch.weights.dtype).contiguous()
        path = folder / f"{prefix}.part-{part:05d}.safetensors"
        with explained(path, "exporting"):
            _save(tensors, path)
        files[path.name] = FileSum(path.stat().st_size, checksum_of_file(path))
    return files


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file(tensors, path)
    except Exception as error:  # the library hides the system's error number in its own exception's text
        if "os error " not in str(error):
            raise
        number = int(str(error).split("os error ")[1].split(")")[0])
        raise OSError(number, os.strerror(number), str(path)) from error
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _about(rows: Rows, dtype: str | None) -> dict[str, Any]:
    width = rows.like.weights.shape[1]
    own = str(rows.like.weights.dtype).removeprefix("torch.")
    return {"dim": width, "dtype": dtype or own, "rows": rows.count, "default": rows.info["default"]}


def _open(path: Path) -> dict[str, Tensor]:
    with explained(path, "mapping"), safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
