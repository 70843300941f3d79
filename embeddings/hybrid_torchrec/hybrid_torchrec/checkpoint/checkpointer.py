"""Checkpointer: full checkpoints, deltas between them, and loading on any number of ranks."""

from __future__ import annotations

import copy
import os
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.stateful import Stateful

from hybrid_torchrec.checkpoint.changes import ChangeReader
from hybrid_torchrec.checkpoint.collective import Collective, failing_collectively
from hybrid_torchrec.checkpoint.errors import CheckpointError, NoCheckpoint
from hybrid_torchrec.checkpoint.folder import CheckpointFolder, Entry
from hybrid_torchrec.checkpoint.manifest import Manifest, folder_name
from hybrid_torchrec.checkpoint.parts import Rows
from hybrid_torchrec.checkpoint.planner import HashLoadPlanner, HashSavePlanner
from hybrid_torchrec.checkpoint.snapshot import Snapshot
from hybrid_torchrec.checkpoint.storage import ManifestWriter, OrderedReader
from hybrid_torchrec.checkpoint.tables import HashTables, TableShard, changed, freeze
from hybrid_torchrec.metrics import Metrics
from hybrid_torchrec.table.hash_table import HashTable

Mark = tuple[int, int]
TABLES = "hash_tables"  # their name among the saved state


@dataclass
class PendingSave:
    """A save that goes on while training does; `stall` is the seconds that starting it took."""

    future: Future[Path]
    stall: float = field(default=0.0)

    def done(self) -> bool:
        return self.future.done()

    def wait(self, timeout: float | None = None) -> Path:
        """The folder of the complete checkpoint; raises what the save raised."""
        return self.future.result(timeout)


class Checkpointer:
    """Saves and loads hash tables together with the dense model.

        checkpointer = Checkpointer("/data/run-7", {"user": TableShard(table, rank, world)}, keep=3)
        step = checkpointer.load({"model": model, "optimizer": optimizer}) if checkpointer.steps() else 0
        ...
        checkpointer.save(step, {"model": model, "optimizer": optimizer})      # everything
        checkpointer.save_delta(step, {...})                                   # what changed since the last save
        pending = checkpointer.save_async(step, {...}); ...; pending.wait()    # training goes on

    `state`: what torch.distributed.checkpoint takes: modules, optimizers, dicts of tensors and plain data. All ranks of
    `group` call with their own shards. A save is complete or not there; a killed one leaves the earlier ones as they
    were and is removed by the next. The last `keep` full checkpoints stay, with the deltas behind them; what other
    runs than this one, and the one that it loaded, have saved stays in any case.

    Raises CheckpointError (checkpoint/errors.py), the same on all ranks.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        tables: Mapping[str, TableShard | HashTable],
        *,
        keep: int = 3,
        group: dist.ProcessGroup | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.folder = CheckpointFolder(root)
        self.tables = HashTables(tables)
        self.keep = keep
        self.metrics = metrics if metrics is not None else Metrics()
        # Collectives of a save in the background must not mix with those of training.
        distributed = dist.is_available() and dist.is_initialized()
        ranks = dist.get_process_group_ranks(group) if distributed and group is not None else None
        self._group = dist.new_group(ranks, backend="gloo", use_local_synchronization=True) if distributed else None
        self._last: Manifest | None = None
        self._run = uuid.uuid4().hex
        self._readers = {name: ChangeReader(shard.table) for name, shard in self.tables.shards.items()}
        self._pending: PendingSave | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")

    def steps(self) -> list[int]:
        """Of the complete checkpoints, full or delta, ascending."""
        return sorted({entry.step for entry in self.folder.entries()})

    def save(self, step: int, state: Mapping[str, Any] | None = None) -> Path:
        """Saves everything to root/full-<step> and returns the folder."""
        self._finish_pending()
        marks = self._mark()
        rows = {name: freeze(shard) for name, shard in self.tables.shards.items()}
        return self._write(Manifest("full", step, self._world, {}, run=self._run), dict(state or {}), rows, marks)

    def save_async(self, step: int, state: Mapping[str, Any] | None = None) -> PendingSave:
        """As save(), but returns as soon as training may go on; what is saved is the state at this call.

        Dense tensors are copied at once. Rows of the tables are copied in the background, a few at a time, and before
        training changes one that is not copied yet.
        """
        self._finish_pending()
        start = time.perf_counter()
        marks = self._mark()
        staged = staged_copy(dict(state or {}))
        snapshots = {}
        with ExitStack() as begun:  # if one fails, the tables must not go on with those before it
            for name, shard in self.tables.shards.items():
                snapshots[name] = Snapshot(shard)
                begun.callback(snapshots[name].release)
            taken = begun.pop_all()

        def write() -> Path:
            with taken:
                rows = {name: snapshot.rows for name, snapshot in snapshots.items()}
                return self._write(Manifest("full", step, self._world, {}, run=self._run), staged, rows, marks)

        self._pending = PendingSave(self._worker.submit(write))
        self._pending.stall = time.perf_counter() - start
        self.metrics.set("save_stall_seconds", self._pending.stall)
        return self._pending

    def save_delta(self, step: int, state: Mapping[str, Any] | None = None) -> Path:
        """Saves to root/delta-<step> the rows that changed and the ids that went since the last save or load.

        `state` is saved whole. Loading a delta loads what it follows first.
        """
        self._finish_pending()
        if self._last is None:
            raise NoCheckpoint(f"{self.folder.root}: a delta follows a checkpoint of this run; save() or load() first")
        rows, marks = {}, {}
        for name, reader in self._readers.items():
            rows[name], marks[name] = changed(reader)
        last = self._last
        manifest = Manifest(
            "delta",
            step,
            self._world,
            {},
            last.base or last.name,
            last.sequence + 1,
            last.digest,
            last.name,
            run=self._run,
        )
        return self._write(manifest, dict(state or {}), rows, marks)

    def load(self, state: dict[str, Any] | None = None, *, step: int | None = None, strict: bool = True) -> int:
        """Loads the newest complete checkpoint, or that of `step`, into `state` and the tables; returns its step.

        Entries of `state` that are no modules or optimizers are replaced in the dict. strict=False leaves out what the
        checkpoint does not have. The number of ranks may differ from that of the save.
        """
        self._finish_pending()
        chain = self._ranks.all_reduce("find", lambda: None, lambda _: self._chain(step))
        self._ranks.all_reduce("verify", lambda: self._verify(chain), lambda _: None)
        for index, entry in enumerate(chain):
            last = index == len(chain) - 1
            tables = HashTables(self.tables.shards, adds=index > 0)
            whole = {**(state if state is not None and last else {}), TABLES: tables}
            self._read(entry.path, whole, strict)
            if state is not None and last:
                state.update({name: value for name, value in whole.items() if name != TABLES})
        marks = self._mark()
        self._last = chain[-1].manifest
        self._run = self._last.run or self._run
        self._commit(marks)
        return chain[-1].step

    def remove_old(self) -> list[str]:
        """Removes all but the last `keep` full checkpoints of this run, as every save does; returns their names."""
        return self._ranks.all_reduce("remove", lambda: None, lambda _: self.folder.keep_last(self.keep, self._run))

    @property
    def _ranks(self) -> Collective:
        return Collective(self._group)

    @property
    def _world(self) -> int:
        return self._ranks.world

    def _chain(self, step: int | None) -> list[Entry]:
        return self.folder.chain(self.folder.latest() if step is None else self.folder.at(step))

    def _verify(self, chain: list[Entry]) -> None:
        """This rank's share of the files, of all that is going to be loaded, before any of it is."""
        for entry in chain:
            entry.manifest.verify(entry.path, self._ranks.rank, self._ranks.world)

    def _mark(self) -> dict[str, Mark]:
        """From where the next delta counts."""
        return {name: reader.mark() for name, reader in self._readers.items()}

    def _commit(self, marks: dict[str, Mark]) -> None:
        for name, mark in marks.items():
            self._readers[name].commit(mark)

    def _finish_pending(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.wait()

    def _write(self, manifest: Manifest, state: dict[str, Any], rows: dict[str, Rows], marks: dict[str, Mark]) -> Path:
        if TABLES in state:
            raise ValueError(f"{TABLES!r} is the tables' own name; give that entry of the state another")
        writer = ManifestWriter(self.folder.root, manifest)
        try:
            with failing_collectively(), quiet_when_alone(), self.metrics.timed("save_seconds"):
                dcp.save(
                    {**state, TABLES: self.tables.with_rows(rows)},
                    storage_writer=writer,
                    planner=HashSavePlanner(),
                    process_group=self._group,
                )
        finally:
            writer.release()
        self._last = self._ranks.all_reduce("commit", lambda: writer.saved, lambda saved: saved[0])
        self._commit(marks)
        self.remove_old()
        self.metrics.add(f"saved_{manifest.kind}_checkpoints")
        self.metrics.add("saved_rows", sum(part.count for part in rows.values()))
        return self.folder.root / folder_name(manifest.kind, manifest.step)

    def _read(self, path: Path, state: dict[str, Any], strict: bool) -> None:
        with failing_collectively(), quiet_when_alone():
            dcp.load(
                state,
                storage_reader=OrderedReader(path),
                planner=HashLoadPlanner(allow_partial_load=not strict),
                process_group=self._group,
            )


def staged_copy(value: Any) -> Any:
    """A copy on the CPU that training does not change (dcp.async_save leaves tensors of the CPU shared with it)."""
    if isinstance(value, Stateful):
        return staged_copy(value.state_dict())
    if isinstance(value, torch.Tensor) and type(value) in (torch.Tensor, torch.nn.Parameter):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {name: staged_copy(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(staged_copy(entry) for entry in value)
    if isinstance(value, torch.Tensor):
        return value.clone()  # DTensor, ShardedTensor: of the same ranks
    return copy.deepcopy(value)


@contextmanager
def quiet_when_alone() -> Iterator[None]:
    """Without ranks dcp warns at every call that there are none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is unavailable or uninitialized")
        warnings.filterwarnings("ignore", "TypedStorage is deprecated")
        yield


__all__ = ["CheckpointError", "Checkpointer", "PendingSave", "staged_copy"]
