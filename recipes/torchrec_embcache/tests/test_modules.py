"""Collections of cached tables, alone and over two processes, give the bits of resident ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from models import make_batch, make_model

PROGRAM = Path(__file__).with_name("sharded_program.py")
WORLD = 2
TIME_LIMIT = 280


@pytest.mark.parametrize("kind", ["bags", "sequences"])
@pytest.mark.parametrize("ahead", [0, 3])
def test_collection(kind: str, ahead: int, folder: Path) -> None:
    cpu = torch.device("cpu")
    resident, cached = make_model(kind, cpu, None, 0), make_model(kind, cpu, folder, 170)
    assert cached.sparse.fused_optimizer.param_groups[0]["lr"] == 0.05
    sent = 0
    for step in range(25):
        while ahead and sent <= min(step + ahead, 24):
            cached.sparse.prefetch(make_batch(sent, 0).features)
            sent += 1
        losses = [model(make_batch(step, 0)) for model in (resident, cached)]
        assert torch.equal(losses[0][1], losses[1][1]), step
        for loss, _ in losses:
            loss.backward()
    cached.eval()
    resident.eval()
    assert torch.equal(resident(make_batch(3, 7))[1], cached(make_batch(3, 7))[1])
    tables = cached.sparse.cached_tables()
    assert all(len(table) > table.device_rows for (table,) in tables.values())
    left, right = cached.state_dict(), resident.state_dict()
    assert left.keys() == right.keys()
    for key, value in right.items():
        if not key.endswith("clock"):  # evictions of a cache forget nothing
            assert torch.equal(left[key], value), key
    cached.sparse.close()


def test_loaded_rows_are_trained_on(folder: Path) -> None:
    """A state_dict of resident tables goes into cached ones, most of it to the tiers below, and back."""
    cpu = torch.device("cpu")
    resident, cached = make_model("bags", cpu, None, 0), make_model("bags", cpu, folder, 170)
    for step in range(10):
        resident(make_batch(step, 0))[0].backward()
        cached(make_batch(step + 50, 0))[0].backward()  # rows that must not stay
    cached.load_state_dict(resident.state_dict())
    for step in range(10, 20):
        outputs = [model(make_batch(step, 0)) for model in (resident, cached)]
        assert torch.equal(outputs[0][1], outputs[1][1])
        for loss, _ in outputs:
            loss.backward()
    again = make_model("bags", cpu, None, 0)
    again.load_state_dict(cached.state_dict())
    for key, value in resident.state_dict().items():
        if not key.endswith("clock"):
            assert torch.equal(again.state_dict()[key], value), key
    cached.sparse.close()


def test_two_processes(tmp_path: Path) -> None:
    env = {**os.environ, "WORLD_SIZE": str(WORLD), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    logs = [tmp_path / f"rank{rank}.log" for rank in range(WORLD)]
    processes = []
    for rank, log in enumerate(logs):
        with log.open("w") as file:
            argv = [sys.executable, str(PROGRAM), str(tmp_path / "init"), str(tmp_path)]
            processes.append(
                subprocess.Popen(argv, env={**env, "RANK": str(rank)}, stdout=file, stderr=subprocess.STDOUT)
            )
    try:
        codes = [process.wait(TIME_LIMIT) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert codes == [0] * WORLD, "\n".join(log.read_text()[-3000:] for log in logs)
    cases = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(WORLD)]
    for name in cases[0]:
        for case in cases:
            assert case[name]["outputs"] and case[name]["rows"], (name, case[name])
            assert case[name]["count"] > 100 and case[name]["evicted"] > 20, (name, case[name])
        # Every shard of every rank has a folder of its own.
        assert len(cases[0][name]["folders"]) >= 4, cases[0][name]["folders"]
