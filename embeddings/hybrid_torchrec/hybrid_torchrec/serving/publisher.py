"""Publisher: the training side of the delta stream; one on every rank that holds tables."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

import torch.distributed as dist

from hybrid_torchrec.checkpoint.changes import ChangeReader
from hybrid_torchrec.checkpoint.collective import Collective
from hybrid_torchrec.checkpoint.errors import CheckpointError, explained
from hybrid_torchrec.checkpoint.export import DTYPES, write_alone
from hybrid_torchrec.checkpoint.tables import TableShard, freeze
from hybrid_torchrec.metrics import Metrics
from hybrid_torchrec.serving.id_shards import Share, faults
from hybrid_torchrec.serving.layout import Current, StreamShard, remove_runs
from hybrid_torchrec.serving.record import Changes, Record

_DTYPES = ("float32", "float16", "bfloat16")
_log = logging.getLogger(__name__)


class Publisher:
    """Publishes what changed in `tables` since the last call, from the training loop:

        publisher = Publisher("/shared/stream", {"user": TableShard(table)})
        for batch in data:
            train(batch)
            if step % 10 == 0:
                publisher.publish(step)

    Every start of a publisher is a run of its own and begins with a base, since a trainer that comes back from a
    checkpoint has lost the steps that came after it, and what it published of them. A record that cannot be written
    (StorageFailure) is not lost: its rows are in the next one. Consumers that cannot go on ask for a base, which
    publish() writes. The last `keep` bases and what follows them stay, and so does the run before this one; of earlier
    runs what publishers wrote is removed, and nothing else in `root` ever is. `dtype` of the rows: float32, float16,
    bfloat16, or None for the tables' own.

    On many ranks each gives the shards that it holds, or none: `table_shards(model)` of a sharded model. Together they
    must be whole tables: CheckpointError names shards that are missing, or on two ranks.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        tables: Mapping[str, TableShard],
        *,
        step: int = 0,
        dtype: str | None = None,
        keep: int = 2,
        metrics: Metrics | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        if dtype not in (None, *_DTYPES):
            raise ValueError(f"dtype {dtype!r} is not one of {', '.join(_DTYPES)}")
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.root = Path(root)
        self.tables = dict(tables)
        self.dtype = dtype
        self.keep = keep
        self.metrics = metrics if metrics is not None else Metrics()
        self._row_dtype = None if dtype is None else DTYPES[dtype]
        self._readers = {name: ChangeReader(shard.table) for name, shard in self.tables.items()}
        self._sequence = 0
        self._base_wanted = False
        ranks = Collective(group)
        shares = {name: (shard.shard, shard.shards) for name, shard in self.tables.items()}
        self.run = ranks.all_reduce("name the run", lambda: shares, self._name_run)
        self.shard = StreamShard.of(self.root, self.run, ranks.rank, ranks.world)

        def begin() -> None:
            with explained(self.shard.path, "starting to publish"):
                self.shard.path.mkdir(parents=True, exist_ok=True)
                self.shard.mark(self.run)
            for reader in self._readers.values():
                reader.commit(reader.mark())
            self.publish_base(step)

        def announce(_: list[None]) -> None:
            before = Current.read(self.root)
            Current(self.run, ranks.world).write(self.root)
            remove_runs(self.root, but={self.run, before.run if before else self.run})

        ranks.all_reduce("begin to publish", begin, announce)

    def _name_run(self, shares: list[dict[str, Share]]) -> str:
        """Before anything is written: the tables are whole, and no CURRENT of somebody else is in the way."""
        found = faults(shares)
        if found:
            raise CheckpointError(
                f"{self.root}: {'; '.join(found)}. Give each rank the shards that it holds: "
                "Publisher(root, table_shards(model)), or TableShard(table, shard, shards)"
            )
        Current.read(self.root)
        return uuid.uuid4().hex[:16]

    @property
    def sequence(self) -> int:
        """Of the last record."""
        return self._sequence

    def publish(self, step: int) -> Record:
        """Writes one record of all that changed, also if nothing did, so that consumers know how fresh they are."""
        record = self._publish_changes(step)
        for request in self.shard.requests():
            _log.info("%s: a consumer asks for a base: %s", request, request.read_text(errors="replace"))
            self._base_wanted = True  # until it is written: consumers ask once
            request.unlink(missing_ok=True)
        if self._base_wanted:
            self.publish_base(step)
        return record

    def publish_base(self, step: int) -> Path:
        """Writes all rows as they are now; the records before the last `keep` bases go."""
        if any(base.step == self._sequence for base in self.shard.bases()):
            self._publish_changes(step)
        rows = {name: (freeze(shard), shard.shard, shard.shards) for name, shard in self.tables.items()}
        # What changed since the last record is in this base and in the next record, which does no harm.
        path = write_alone(self.shard.path, self._sequence, rows, dtype=self.dtype)
        self._base_wanted = False
        self.metrics.add("published_bases")
        self._forget()
        return path

    def _publish_changes(self, step: int) -> Record:
        changed: dict[str, Changes] = {}
        marks = {}
        for name, reader in self._readers.items():
            batch, erased, marks[name] = reader.peek(seen=False)
            weights = batch.weights.cpu()
            changed[name] = Changes(batch.ids.cpu(), weights.to(self._row_dtype or weights.dtype), erased)
        record = Record(self.run, self._sequence + 1, step, changed)
        path = record.write(self.shard.path)
        self._sequence = record.sequence
        for name, mark in marks.items():
            self._readers[name].commit(mark)
        self.metrics.add("published_rows", record.rows)
        self.metrics.add("published_bytes", path.stat().st_size)
        return record

    def _forget(self) -> None:
        bases = self.shard.bases()
        self.shard.remove_bases(bases[: -self.keep])
        oldest = bases[-self.keep :][0].step
        for sequence in self.shard.sequences():
            if sequence <= oldest:
                self.shard.record(sequence).unlink(missing_ok=True)
