"""Settings of the table of items, and what does not fit together among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gr_model.config.setting import setting

SHARDED_OPTIMIZERS = ("rowwise_adagrad", "adagrad", "sgd", "adam")  # fbgemm's, fused into a sharded table's lookup
OPTIMIZERS = (*SHARDED_OPTIMIZERS, "adamw", "lamb", "lion")
POSITIVE = ("lr", "admit_after", "ttl")
# Kinds of table that look at a setting; at those that are not here all do.
MANY = ("sharded", "hash", "embcache")
GROWING = ("hash", "embcache")
KINDS_OF = {
    **dict.fromkeys(("sharding", "optimizer", "lr", "eps", "look_ahead"), MANY),
    **dict.fromkeys(("initializer", "init_std", "admission", "admit_after", "admit_probability"), GROWING),
    **dict.fromkeys(("capacity", "max_rows", "eviction", "ttl"), ("hash",)),
    **dict.fromkeys(("cache_rows", "host_rows", "folder"), ("embcache",)),
}
NEEDS_LAUNCHER = (
    "embedding.kind=sharded needs a launcher: torchrun --nproc-per-node=2 -m gr_model.train ...; one process may be "
    "launched too"
)
NOT_NEGATIVE = ("init_std", "look_ahead", "capacity", "max_rows", "cache_rows", "host_rows")


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """Where the table of items lives. The other tables are small: they go with the dense part."""

    kind: str = setting(
        "static",
        "static: a copy on every process; sharded: over the processes, by torchrec; hash: likewise, rows are made for "
        "ids when they are first seen (hybrid_torchrec); embcache: these, on the device while needed "
        "(torchrec_embcache)",
        choices=("static", "sharded", "hash", "embcache"),
    )
    sharding: str = setting(
        "row_wise", "how the table is split over processes", choices=("row_wise", "table_wise", "column_wise")
    )
    optimizer: str = setting(
        "rowwise_adagrad",
        f"fused into the lookup; sharded tables have {', '.join(SHARDED_OPTIMIZERS)}",
        choices=OPTIMIZERS,
    )
    lr: float = setting(0.05, "of that optimizer; it follows the same schedule as train.lr")
    eps: float = setting(1e-8, "of that optimizer")
    look_ahead: int = setting(
        2, "batches whose ids travel, and whose rows are fetched, while one trains (train.pipeline)"
    )
    # Of hash and embcache:
    initializer: str = setting(
        "normal", "of a new row, by its id alone", choices=("normal", "truncated_normal", "uniform", "zeros")
    )
    init_std: float = setting(0.02, "standard deviation of a new row")
    admission: str = setting(
        "all",
        "ids that get a row: all, after admit_after sightings, or with a probability in each step",
        choices=("all", "after", "probability"),
    )
    admit_after: int = setting(2, "sightings before an id gets a row")
    admit_probability: float = setting(0.1, "that an id gets a row in a step")
    # Of hash, over all processes:
    capacity: int = setting(0, "rows for which memory is made at first, over all processes; 0: few")
    max_rows: int = setting(0, "most rows over all processes; 0: no limit")
    eviction: str = setting(
        "none",
        "at max_rows: none is an error, lru and lfu make room; ttl forgets what was not seen for `ttl` steps",
        choices=("none", "lru", "lfu", "ttl"),
    )
    ttl: int = setting(100_000, "steps after which eviction=ttl forgets an id")
    # Of embcache, over all processes:
    cache_rows: int = setting(0, "rows in the devices' memory, over all processes")
    host_rows: int = setting(0, "rows in host memory, the others in `folder`; 0: all that are not on the device")
    folder: str = setting("", "rows on disk, emptied when a run starts: checkpoints hold them; empty: no disk")

    @property
    def dynamic(self) -> bool:
        """Whether the table has only rows of ids that were seen."""
        return self.kind in GROWING


def faults(table: EmbeddingConfig) -> Iterator[str]:
    for name in POSITIVE:
        if not getattr(table, name) > 0:
            yield f"embedding.{name}: must be greater than 0, got {getattr(table, name)}"
    for name in NOT_NEGATIVE:
        if getattr(table, name) < 0:
            yield f"embedding.{name}: must not be negative, got {getattr(table, name)}"
    if table.kind == "sharded" and table.optimizer not in SHARDED_OPTIMIZERS:
        yield f"embedding.optimizer: {table.optimizer} goes with embedding.kind=hash and embcache"
    if table.kind == "sharded" and table.sharding == "column_wise" and table.optimizer == "rowwise_adagrad":
        yield (
            "embedding.optimizer: rowwise_adagrad has one number for a whole row, which processes with a part of its "
            "columns do not have; valid with embedding.sharding=column_wise: adagrad, sgd, adam"
        )
    if not 0 < table.admit_probability <= 1:
        yield f"embedding.admit_probability: must be in (0, 1], got {table.admit_probability}"
    if table.kind == "embcache":
        if not table.cache_rows:
            yield "embedding.cache_rows: embcache needs the number of rows in the devices' memory, over all processes"
        if table.max_rows or table.eviction != "none":
            yield "embedding.max_rows and embedding.eviction forget rows, but embcache keeps all; valid with hash"
        if table.host_rows and not table.folder:
            yield "embedding.host_rows: the other rows need an embedding.folder on disk"
    if table.kind == "hash" and table.eviction in ("lru", "lfu") and not table.max_rows:
        yield f"embedding.max_rows: eviction={table.eviction} needs a limit"


def device_faults(table: EmbeddingConfig, device: str) -> Iterator[str]:
    """What the table cannot be on a kind of device. fbgemm's tables on the CPU have no fused Adam."""
    if table.kind == "sharded" and table.optimizer == "adam" and device == "cpu":
        yield (
            "embedding.optimizer: there is no fused adam for sharded tables on the CPU; valid there: adagrad, "
            "rowwise_adagrad, sgd, or adam with embedding.kind=hash"
        )
