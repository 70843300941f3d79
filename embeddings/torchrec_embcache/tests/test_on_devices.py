"""Cached tables in the memory of each device: the bits of a resident table there, and the CPU's rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cached_tables import cached_table
from hybrid_torchrec.checkpoint import Checkpointer
from hybrid_torchrec.table import HashTable
from rows import assert_used_disk, let_writes_end
from small_tables import all_rows, assert_same_rows, batch, make_table, train

KINDS = ["adam", "rowwise_adagrad"]  # one of the device's operators, and one of two sizes of state


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_on_the_device_and_equal_to_the_cpus(kind: str, device: str, folder: Path) -> None:
    cached = cached_table(kind, folder=folder, device=device)
    tables: list[HashTable] = [cached, make_table(kind, device=device), make_table(kind)]
    for step in range(12):
        cached.prefetch(batch(step, of=400)[0])
        for table in tables:
            train(table, step, of=400)
        if step % 4 == 3:
            let_writes_end(cached)
    assert cached.weights.device == torch.device(device) and cached.weights.shape[0] <= 1 + cached.cache.cache_rows
    assert cached.metrics.counters().evicted_rows > 100 and cached.metrics.counters().fetched_rows > 20
    assert_used_disk(cached, 20)
    near, resident, on_cpu = map(all_rows, tables)
    assert_same_rows(near, resident)
    for name, tensor in near.named_tensors().items():
        torch.testing.assert_close(tensor, on_cpu.named_tensors()[name], rtol=1e-6, atol=1e-6, msg=name)
    cached.close()


def test_a_checkpoint_goes_from_a_device_to_the_cpu_and_back(device: str, tmp_path: Path) -> None:
    cached = cached_table(folder=tmp_path / "rows", device=device)
    checkpointer = Checkpointer(tmp_path / "c", {"user": cached})
    for step in range(6):
        train(cached, step, of=400)
    pending = checkpointer.save_async(6)
    for step in range(6, 9):
        train(cached, step, of=400)
    pending.wait(120)
    checkpointer.save_delta(9)
    for number, target in enumerate(("cpu", device)):
        found = cached_table(folder=tmp_path / f"rows-{number}", device=target)
        assert Checkpointer(tmp_path / "c", {"user": found}).load() == 9
        assert_same_rows(all_rows(found), all_rows(cached))
