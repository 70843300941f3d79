"""Compaction: a full checkpoint and its deltas become one full checkpoint; and export without a trainer.

python -m hybrid_torchrec.checkpoint.compact ROOT [--step STEP]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from torch.distributed.checkpoint.state_dict_saver import _save_state_dict

from hybrid_torchrec.checkpoint.checkpointer import TABLES
from hybrid_torchrec.checkpoint.collective import failing_collectively
from hybrid_torchrec.checkpoint.export import write_rows
from hybrid_torchrec.checkpoint.folder import CheckpointFolder
from hybrid_torchrec.checkpoint.manifest import Manifest
from hybrid_torchrec.checkpoint.parts import Rows
from hybrid_torchrec.checkpoint.planner import HashSavePlanner
from hybrid_torchrec.checkpoint.saved import SavedTables, merged
from hybrid_torchrec.checkpoint.storage import ManifestWriter
from hybrid_torchrec.checkpoint.tables import SavedLeaf


def compact(root: str | os.PathLike[str], step: int | None = None) -> Path:
    """Writes root/full-<step> from the chain that ends at delta-<step> (None: at the newest), and returns it.

    One process does it, with the ids of a shard and one part of its rows in memory, while training goes on: a save that
    comes meanwhile waits. The old folders stay until Checkpointer's `keep` removes them. A full checkpoint is returned
    as it is. Kill it at any time: the chain is as it was.
    """
    folder = CheckpointFolder(root)
    last = folder.latest() if step is None else folder.at(step)
    chain = [SavedTables(entry.path) for entry in folder.chain(last)]
    if len(chain) == 1:
        return last.path
    tables: dict[str, list[tuple[Rows, int, int]]] = {}
    for name in chain[-1].tables():
        for shard, shards in chain[-1].shards(name):
            source = (merged(chain, name, shard, shards), shard, shards)
            tables.setdefault(name.removeprefix(f"{TABLES}."), []).append(source)
    newest = chain[-1].manifest
    manifest = Manifest("full", newest.step, newest.world, {}, replaces=newest.digest, run=newest.run)
    writer = ManifestWriter(root, manifest)
    try:
        state = {**chain[-1].dense(), TABLES: {name: SavedLeaf(sources) for name, sources in tables.items()}}
        with failing_collectively():
            _save_state_dict(state, writer, no_dist=True, planner=HashSavePlanner())
    finally:
        writer.release()
    return folder.root / writer.manifest.name


def export_checkpoint(
    root: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    step: int | None = None,
    dtype: str | None = None,
) -> Path:
    """Exports the tables of a checkpoint (None: the newest) to `to`/export-<step>, as export() does from a trainer."""
    folder = CheckpointFolder(root)
    last = folder.latest() if step is None else folder.at(step)
    chain = [SavedTables(entry.path) for entry in folder.chain(last)]
    sources = {name.removeprefix(f"{TABLES}."): (merged(chain, name, 0, 1), 0, 1) for name in chain[-1].tables()}
    return write_rows(to, last.step, sources, dtype=dtype)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Turns a full checkpoint and its deltas into one full checkpoint.")
    parser.add_argument("root", help="folder of the checkpoints")
    parser.add_argument("--step", type=int, help="of the last delta; default: the newest")
    options = parser.parse_args(arguments)
    print(compact(options.root, options.step))
    return 0


if __name__ == "__main__":
    sys.exit(main())
