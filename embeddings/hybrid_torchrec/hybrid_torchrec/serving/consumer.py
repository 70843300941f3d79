"""Consumer: the serving side of the delta stream; follows the trainers and answers lookups meanwhile."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from hybrid_torchrec.checkpoint.errors import CheckpointError, CorruptCheckpoint, StorageFailure
from hybrid_torchrec.hashing import rank_of
from hybrid_torchrec.metrics import Metrics
from hybrid_torchrec.serving.id_shards import faults
from hybrid_torchrec.serving.layout import Current, StreamShard
from hybrid_torchrec.serving.record import Record
from hybrid_torchrec.serving.served import ServedShard

_log = logging.getLogger(__name__)


@dataclass
class _Follower:
    """Follows one shard; `served` is replaced whole, so that a lookup never sees half a base."""

    shard: StreamShard
    run: str
    name: str
    metrics: Metrics
    served: ServedShard | None = None
    waits_for_base: str = ""  # why
    corrupt_bases: set[Path] = field(default_factory=set)

    def poll(self) -> int:
        """Applies what is there; returns the number of records and bases."""
        applied = 0
        if self.served is None or self.waits_for_base:
            applied += self._load_base()
        while self.served is not None and not self.waits_for_base and self._apply_next(self.served):
            applied += 1
        return applied

    def _apply_next(self, served: ServedShard) -> bool:
        path = self.shard.record(served.sequence + 1)
        try:
            record = Record.read(path)
            if record.run != self.run:
                raise CorruptCheckpoint(f"{path}: of run {record.run}, not {self.run}")
            served.apply(record)
        except (StorageFailure, CorruptCheckpoint) as error:
            if isinstance(error, CorruptCheckpoint):
                self._need_base(str(error))
            elif not path.exists():
                later = [n for n in self.shard.sequences() if n > served.sequence]
                # The listing is younger than the read: it may hold the record by now.
                if later and later[0] > served.sequence + 1:
                    self._need_base(f"record {served.sequence + 1} is missing, {later[0]} is there")
                elif self._newer_base() is not None and not path.exists():
                    self._need_base(f"record {served.sequence + 1} is missing, a newer base is there")
            elif not isinstance(error.__cause__, FileNotFoundError):  # else it came just now, and is read next time
                _log.warning("%s", error)
            return False
        self.metrics.set("record_latency_seconds", max(0.0, time.time() - record.created))
        self.metrics.add("applied_rows", record.rows)
        self.metrics.add("applied_records")
        return True

    def _newer_base(self) -> int | None:
        have = -1 if self.served is None else self.served.sequence
        newer = [base.step for base in self.shard.bases() if base.step > have and base.path not in self.corrupt_bases]
        return newer[-1] if newer else None

    def _need_base(self, reason: str) -> None:
        _log.warning("%s: %s; asking for a new base", self.shard.path, reason)
        self.metrics.add("gaps")
        self.waits_for_base = reason
        if not self._load_base():
            self._request(reason)

    def _request(self, reason: str) -> None:
        try:
            self.shard.request_base(self.name, reason)
        except StorageFailure as error:  # a server may have no right to write; the next base comes all the same
            _log.warning("cannot ask for a base: %s", error)

    def _load_base(self) -> int:
        have = -1 if self.served is None else self.served.sequence
        for base in reversed(self.shard.bases()):
            if base.step <= have or base.path in self.corrupt_bases:
                continue
            try:
                served = ServedShard.load(base)
                if self.served is not None and served.shares != self.served.shares:
                    raise CorruptCheckpoint(f"{base.path}: has other shares of the ids than the base before it")
                self.served = served
            except CorruptCheckpoint as error:
                if not base.path.exists():  # removed while it was read, as below
                    continue
                self.corrupt_bases.add(base.path)
                self._request(str(error))
                _log.warning("%s", error)
                continue
            except StorageFailure as error:  # removed while it was read: a newer one is there
                _log.warning("%s", error)
                continue
            self.waits_for_base = ""
            self.metrics.add("loaded_bases")
            return 1
        return 0


class Consumer:
    """Follows the stream in `root` in a thread of its own, every `interval` seconds, and answers lookups.

        with Consumer("/shared/stream", name="server-7") as consumer:
            consumer.wait_ready(30)
            weights, found = consumer.lookup("user", ids)

    It keeps nothing of its own on disk: after a restart it loads the last base and what follows. A record that is
    missing or damaged makes it ask for a new base and serve what it has until that is there. When the trainers start a
    new run, it serves the old one until all shards of the new one are loaded. Lookups see a record row by row, never
    half a row.
    """

    def __init__(
        self, root: str | os.PathLike[str], *, name: str, interval: float = 0.05, metrics: Metrics | None = None
    ) -> None:
        self.root = Path(root)
        self.name = name
        self.interval = interval
        self.metrics = metrics if metrics is not None else Metrics()
        self._run = ""
        self._refused: tuple[str, str] = ("", "")  # a run that is not served, and why
        self._told = ""
        self._followers: list[_Follower] = []
        self._ready = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"consumer {name}", daemon=True)

    def __enter__(self) -> Consumer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Waits until lookups can be answered."""
        return self._ready.wait(timeout)

    def lookup(self, table: str, ids: Tensor) -> tuple[Tensor, Tensor]:
        """ids int64 (L,) -> float32 (L, D), bool (L,) which are in the table; the others get its default row.

        Raises CheckpointError before the first base is loaded, KeyError for an unknown table, ValueError for ids of
        another type or shape.
        """
        if ids.dtype != torch.int64 or ids.dim() != 1:
            raise ValueError(f"ids must be int64 of shape (L,), got {ids.dtype} of shape {tuple(ids.shape)}")
        holders = self._holders(table)
        self.metrics.add("lookups", len(ids), table=table)
        if len(holders) == 1:
            rows, found = holders[0].lookup(table, ids)
        else:
            owner = rank_of(ids, len(holders))
            parts = [(owner == share).nonzero()[:, 0] for share in range(len(holders))]
            answers = [holder.lookup(table, ids[part]) for holder, part in zip(holders, parts, strict=True)]
            order = torch.cat(parts).argsort()
            rows = torch.cat([rows for rows, _ in answers])[order]
            found = torch.cat([found for _, found in answers])[order]
        self.metrics.add("hits", int(found.sum()), table=table)
        return rows, found

    def width(self, table: str) -> int:
        """D of a table; raises as lookup() does."""
        return self._holders(table)[0].width(table)

    def _holders(self, table: str) -> list[ServedShard]:
        """In the order of their shares: over them, not over all publishers, are the ids of the table spread."""
        served = [follower.served for follower in self._followers]
        if not self._ready.is_set() or not served:
            why = self._refused[1] or "no base yet; start the trainers' publisher, or wait_ready()"
            raise CheckpointError(f"{self.root}: {why}")
        holders = [shard for shard in served if shard is not None and table in shard]
        if not holders:
            names = sorted({name for shard in served if shard is not None for name in shard.tables})
            raise KeyError(f"no table {table!r}; there are: {', '.join(names)}")
        return sorted(holders, key=lambda shard: shard.shares[table])

    def poll(self) -> int:
        """One look at the stream; returns the number of bases and records applied. The thread's own work.

        Raises CheckpointError if the shards of a new run are not whole tables: the run before it is served on.
        """
        current = Current.read(self.root)
        if current is None:
            return 0
        applied = 0
        if current.run != self._run:
            if current.run == self._refused[0]:
                raise CheckpointError(f"{self.root}: {self._refused[1]}")
            shards = [StreamShard.of(self.root, current.run, i, current.shards) for i in range(current.shards)]
            followers = [_Follower(shard, current.run, self.name, self.metrics) for shard in shards]
            applied += sum(follower.poll() for follower in followers)
            served = [follower.served for follower in followers if follower.served is not None]
            if len(served) == len(followers):
                found = faults([shard.shares for shard in served])
                if found:
                    self._refused = (current.run, f"run {current.run} is not served: {'; '.join(found)}")
                    raise CheckpointError(f"{self.root}: {self._refused[1]}")
                self._followers, self._run, self._refused = followers, current.run, ("", "")
                self._ready.set()
            return applied
        applied += sum(follower.poll() for follower in self._followers)
        return applied

    def status(self) -> dict[str, object]:
        """What /status answers: run, and per shard the last record, its step, and why it waits, if it does; and why a
        newer run is not served, if there is one that is not."""
        served = [(f, f.served) for f in self._followers]
        tables: dict[str, int] = {}
        for _, shard in served:
            for name, rows in (shard.tables if shard else {}).items():
                tables[name] = tables.get(name, 0) + rows
        shards = [
            {"sequence": s.sequence, "step": s.step, "waits_for_base": f.waits_for_base}
            for f, s in served
            if s is not None
        ]
        return {
            "run": self._run,
            "ready": self._ready.is_set(),
            "tables": tables,
            "shards": shards,
            "refused": self._refused[1],
        }

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                self.poll()
            except CheckpointError as error:  # of the stream, not of ours: serve what there is and look again
                self.metrics.add("poll_errors")
                if str(error) != self._told:  # once, not at every look
                    _log.warning("%s", error)
                self._told = str(error)
            except Exception:  # whatever it is, a server that follows no more must not look like one that does
                self.metrics.add("poll_errors")
                _log.exception("%s: not followed this time", self.root)
            self._stop.wait(self.interval)
