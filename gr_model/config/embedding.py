"""Settings of the table of items, and what does not fit together among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CHOICES = {
    "kind": ("static", "sharded", "hash", "embcache"),
    "sharding": ("row_wise", "table_wise", "column_wise"),
    "optimizer": ("rowwise_adagrad", "adagrad", "sgd", "adam", "adamw", "lamb", "lion"),
    "initializer": ("normal", "truncated_normal", "uniform", "zeros"),
    "admission": ("all", "after", "probability"),
    "eviction": ("none", "lru", "lfu", "ttl"),
}
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

    # "static": a copy on every process; "sharded": over the processes, by torchrec; "hash": likewise, rows are made for
    # ids when they are first seen (hybrid_torchrec); "embcache": these, on the device while needed (torchrec_embcache)
    kind: str = "static"
    sharding: str = "row_wise"  # or "table_wise", "column_wise"
    optimizer: str = "rowwise_adagrad"  # fused into the lookup; sharded tables have the first four of CHOICES
    lr: float = 0.05  # of that optimizer; it follows the same schedule as train.lr
    eps: float = 1e-8
    look_ahead: int = 2  # batches whose ids travel, and whose rows are fetched, while one trains (train.pipeline)
    # Of hash and embcache:
    initializer: str = "normal"  # of a new row, by its id alone: or "truncated_normal", "uniform", "zeros"
    init_std: float = 0.02
    admission: str = "all"  # ids that get a row: or "after" admit_after sightings, or with "probability" in each step
    admit_after: int = 2
    admit_probability: float = 0.1
    # Of hash, over all processes:
    capacity: int = 0  # rows for which memory is made at first; 0: few
    max_rows: int = 0  # 0: no limit
    eviction: str = "none"  # at max_rows: "none" is an error, "lru", "lfu"; or "ttl": what was not seen for `ttl` steps
    ttl: int = 100_000
    # Of embcache, over all processes:
    cache_rows: int = 0  # in the devices' memory
    host_rows: int = 0  # in host memory, the others in `folder`; 0: all that are not on the device
    folder: str = ""  # rows on disk, emptied when a run starts: checkpoints hold them; "": no disk

    @property
    def dynamic(self) -> bool:
        """Whether the table has only rows of ids that were seen."""
        return self.kind in GROWING


def faults(table: EmbeddingConfig) -> Iterator[str]:
    for name, valid in CHOICES.items():
        if getattr(table, name) not in valid:
            yield f"embedding.{name}: unknown choice {getattr(table, name)!r}; valid: {', '.join(valid)}"
    for name in POSITIVE:
        if not getattr(table, name) > 0:
            yield f"embedding.{name}: must be greater than 0, got {getattr(table, name)}"
    for name in NOT_NEGATIVE:
        if getattr(table, name) < 0:
            yield f"embedding.{name}: must not be negative, got {getattr(table, name)}"
    if table.kind == "sharded" and table.optimizer not in CHOICES["optimizer"][:4]:
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
