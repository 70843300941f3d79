"""Cached tables against a model made of Python dicts: trained ahead, saved, killed and loaded in any order."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import cached_tables  # noqa: F401 (puts hybrid_torchrec's tests of checkpoints on the path)
import numpy as np
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from saved_states import BATCH, CONFIG, Training, assert_agree
from torchrec_embcache import CacheConfig, CachedTable

AHEAD = st.lists(BATCH, min_size=1, max_size=3)


class CachedTraining(Training):
    """Eight rows on the device, three in host memory, up to nineteen in all; a batch has up to six ids."""

    config = replace(CONFIG, eviction=None, max_rows=None)
    table: CachedTable
    opened = 0
    left: Path | None = None

    def new_table(self) -> CachedTable:
        self.opened += 1
        rows = self.folder / f"rows-{self.opened}"
        if self.left is not None:
            shutil.copytree(self.left, rows)
        cache = CacheConfig(
            cache_rows=8, host_rows=3, folder=rows, slab_bytes=2048, io_threads=1, evict_share=0.0, index_rows=4
        )
        return CachedTable(self.config, cache)

    def end(self, table: CachedTable) -> None:
        table.close()

    def restart(self) -> None:
        """On what the killed process has left of its tiers, if there is a checkpoint that replaces their rows."""
        killed = getattr(self, "table", None)
        if killed is not None:
            killed._tiers.store.drain()  # or files would go while they are copied
            self.left = killed.cache.folder if self.committed else None
        super().restart()
        self.left = None
        if killed is not None:
            killed.close()

    def teardown(self) -> None:
        self.table.close()
        super().teardown()

    @rule(batches=AHEAD, seed=st.integers(0, 99))
    def train_ahead(self, batches: list[list[int]], seed: int) -> None:
        for ids in batches:
            self.table.prefetch(torch.tensor(ids))
        for ids in batches:
            self.train(ids, seed)

    @rule(ids=BATCH)
    def prefetch_in_vain(self, ids: list[int]) -> None:
        self.table.prefetch(torch.tensor(ids))
        self.table.cancel_prefetch()

    @rule(ids=BATCH)
    def see(self, ids: list[int]) -> None:
        super().see(ids)
        self.table.apply_gradients()  # there are none; or their rows would stay for them

    @rule(ids=BATCH)
    def serve(self, ids: list[int]) -> None:
        rows = self.table.lookup(self.table.assign(torch.tensor(ids), train=False)).numpy()
        for found, i in zip(rows, ids, strict=True):
            if i in self.model.rows:
                np.testing.assert_allclose(found, self.model.rows[i].weights, rtol=1e-4, atol=1e-5)

    @rule()
    def flush(self) -> None:
        self.table.flush()
        assert self.table.device_rows <= 8
        assert_agree(self.table, self.model)


TestCachedTraining = CachedTraining.TestCase
TestCachedTraining.settings = settings(
    max_examples=15,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),  # shrinking takes minutes; the first failing run says enough
    suppress_health_check=list(HealthCheck),
)
