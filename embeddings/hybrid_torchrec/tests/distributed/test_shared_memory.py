"""Exchanges between processes of one host through memory that they share; exchange_program.py is a rank."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launch import wait

PROGRAM = Path(__file__).with_name("exchange_program.py")
RANKS = 3


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """By rank, what each case saw."""
    folder = tmp_path_factory.mktemp("exchange")
    env = {**os.environ, "WORLD_SIZE": str(RANKS), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    argv = [sys.executable, str(PROGRAM), str(folder)]
    logs = [folder / f"{rank}.log" for rank in range(RANKS)]
    processes = []
    for rank, log in enumerate(logs):
        with log.open("w") as file:
            ranked = {**env, "RANK": str(rank)}
            processes.append(subprocess.Popen(argv, env=ranked, stdout=file, stderr=subprocess.STDOUT))
    codes = wait(processes, 200)
    assert codes == [0] * RANKS, "\n".join(log.read_text() for log in logs)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]


def test_exchanges_are_those_of_gloo(seen: list[dict[str, Any]]) -> None:
    assert [rank["as_gloo"] for rank in seen] == [[True, True]] * RANKS


def test_blocks_are_used_again(seen: list[dict[str, Any]]) -> None:
    for rank in seen:
        few, same, larger = rank["blocks_are_used_again"]
        assert few <= 15  # of 5 exchanges at once, where another rank may still read those of the 5 before
        assert same and larger


@pytest.mark.parametrize("case", ["no_memory_here", "out_of_reach"])
def test_all_ranks_go_by_gloo_where_one_cannot_share(seen: list[dict[str, Any]], case: str) -> None:
    assert [rank[case] for rank in seen] == [[True, True]] * RANKS


def test_who_does_not_know_the_secret_is_sent_away(seen: list[dict[str, Any]]) -> None:
    assert [rank["a_stranger_comes"] for rank in seen] == [[True, [True] * rank] for rank in range(RANKS)]


def test_a_rank_that_sends_nothing_is_named(seen: list[dict[str, Any]]) -> None:
    assert "rank 0: nothing came from rank 1 in 5 s" in seen[0]["nothing_comes"]


def test_what_a_rank_sent_before_it_ended_comes_and_then_its_end_is_told(seen: list[dict[str, Any]]) -> None:
    for rank in range(2):
        received, said = seen[rank]["a_rank_ends"]
        assert received == [0, 1, 2]
        assert f"rank {rank}: rank 2 has ended" in said
