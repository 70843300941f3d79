"""Saving hash tables: checkpoints, deltas, export. See docs/dynamic-embeddings.md."""

from hybrid_torchrec.checkpoint.checkpointer import Checkpointer, PendingSave
from hybrid_torchrec.checkpoint.compact import compact, export_checkpoint
from hybrid_torchrec.checkpoint.errors import (
    BrokenChain,
    CheckpointError,
    CorruptCheckpoint,
    NoCheckpoint,
    StorageFailure,
    TableMismatch,
)
from hybrid_torchrec.checkpoint.export import ServingTable, export
from hybrid_torchrec.checkpoint.planner import HashLoadPlanner, HashSavePlanner
from hybrid_torchrec.checkpoint.tables import HashTables, TableShard

__all__ = [
    "BrokenChain",
    "CheckpointError",
    "Checkpointer",
    "CorruptCheckpoint",
    "HashLoadPlanner",
    "HashSavePlanner",
    "HashTables",
    "NoCheckpoint",
    "PendingSave",
    "ServingTable",
    "StorageFailure",
    "TableMismatch",
    "TableShard",
    "compact",
    "export",
    "export_checkpoint",
]
