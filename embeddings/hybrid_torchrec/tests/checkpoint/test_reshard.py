"""Tables saved on 4, 2 and 1 ranks are loaded on 1, 2, 3 and 8, with everything that belongs to them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from children import without_devices
from hybrid_torchrec.checkpoint.tables import TableShard, overlapping
from hybrid_torchrec.hashing import rank_of
from small_tables import make_table


def test_resharding_between_processes(tmp_path: Path):
    script = Path(__file__).with_name("reshard_ranks.py")
    run = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, env=without_devices(), timeout=1800
    )
    assert run.returncode == 0, run.stdout + run.stderr[-4000:]
    assert run.stdout.splitlines() == [
        f"{part}: ok" for part in ("4 to 2", "4 to 1", "2 to 8", "2 to 3", "1 to 2", "a dead rank")
    ]


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("others", [1, 2, 3, 4, 8, 12])
def test_shards_that_do_not_overlap_share_no_id(shards: int, others: int):
    ids = torch.arange(-3000, 3000) * 7919
    mine, theirs = rank_of(ids, shards), rank_of(ids, others)
    shared = {(int(a), int(b)) for a, b in zip(mine, theirs, strict=True)}
    overlaps = {(a, b) for a in range(shards) for b in range(others) if overlapping(a, shards, b, others)}
    assert shared == overlaps


def test_every_id_has_one_owner():
    ids = torch.arange(1000)
    table = make_table()
    owned = torch.stack([TableShard(table, shard, 5).owns(ids) for shard in range(5)])
    assert owned.sum(0).eq(1).all()
