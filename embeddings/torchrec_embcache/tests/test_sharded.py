"""Sharded collections of cached tables over 1, 2 and 4 processes: the bits of resident ones, and the CPU's results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import forked_ranks
import pytest
import torch

PROGRAM = Path(__file__).with_name("sharded_program.py")
TIME_LIMIT, PATIENCE = 280.0, 5.0


class Started:
    """What the processes of one start left: by case and rank, its record and its tensors."""

    def __init__(self, kind: str, world: int, folder: Path) -> None:
        env = {**os.environ, "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        env |= {"TWIN_NPU_COUNT": str(world), "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(kind == "npu"))}
        logs = [folder / f"rank{rank}.log" for rank in range(world)]
        own = [{"RANK": str(n), "LOCAL_RANK": str(n), "LOCAL_WORLD_SIZE": str(world)} for n in range(world)]
        argv = [str(PROGRAM), kind, str(folder / "init"), str(folder)]
        processes = forked_ranks.start("torch,torchrec,torchrec_embcache.distributed", argv, env, own, logs)
        codes = forked_ranks.wait(processes, TIME_LIMIT, PATIENCE)
        assert codes == [0] * world, "\n".join(log.read_text()[-3000:] for log in logs)
        records = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(world)]
        self.cases: dict[str, list[dict[str, Any]]] = {name: [one[name] for one in records] for name in records[0]}
        self.tensors = {
            name: [torch.load(folder / f"{name}.rank{rank}.pt", weights_only=True) for rank in range(world)]
            for name in self.cases
        }


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Started]:
    class Starts(dict):  # type: ignore[type-arg]
        def __missing__(self, key: tuple[str, int]) -> Started:
            self[key] = Started(*key, tmp_path_factory.mktemp(f"{key[0]}{key[1]}"))
            return self[key]

    return Starts()


def check_against_resident(run: Started, kind: str, world: int) -> None:
    for name, records in run.cases.items():
        for record in records:
            assert record["outputs"] and record["rows"] and record["looked ahead"], (name, record)
            assert record["devices"] == ([kind] if record["count"] else []), (name, record)
        assert sum(record["count"] for record in records) > 100 * world, (name, records)
        assert sum(record["evicted"] for record in records) > 20 * world, (name, records)
        assert sum(record["on disk"] for record in records) > 20 * world, (name, records)
        assert sum(record["from disk"] for record in records) > 0, (name, records)
        columns = {column for record in records for column in record["columns"]}
        assert columns == ({"0"} if world == 1 or "-rows-" in name else {"0", "4"}), (name, columns)
        # Every shard of every rank has a folder of its own.
        assert len(records[0]["folders"]) >= 2 + world, records[0]["folders"]


@pytest.mark.parametrize("world", [1, 2, 4])
def test_gloo(world: int, started: dict[tuple[str, int], Started]) -> None:
    check_against_resident(started["cpu", world], "cpu", world)


@pytest.mark.twin
@pytest.mark.parametrize("world", [1, 2, 4])
def test_hccl(world: int, started: dict[tuple[str, int], Started]) -> None:
    run, on_cpu = started["npu", world], started["cpu", world]
    check_against_resident(run, "npu", world)
    for name, ranks in run.tensors.items():
        for tensors, expected in zip(ranks, on_cpu.tensors[name], strict=True):
            assert tensors.keys() == expected.keys()
            for key, tensor in tensors.items():
                torch.testing.assert_close(tensor, expected[key], rtol=1e-6, atol=1e-6, msg=f"{name} {key}")
