"""Ranks that die, are late, or make different calls: found soon, and named."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from disagreement_workers import MISMATCHES
from hccl_api import E_PARA, E_REMOTE, E_TIMEOUT
from launch import run_ranks

pytestmark = pytest.mark.twin

# Far below the 60 s limit that the ranks run under.
SOON = 5.0
TCP = {"TWIN_HCCL_TRANSPORT": "tcp", "HCCL_IF_IP": "127.0.0.1"}
TRANSPORTS = [({}, ""), (TCP, " at 127.0.0.1")]


@pytest.mark.parametrize("size", [2, 3])
def test_late_rank_is_named_after_the_limit(size: int, tmp_path: Path) -> None:
    outcomes = run_ranks("late_rank", size, tmp_path, environment={"TWIN_HCCL_TIMEOUT": "", "HCCL_EXEC_TIMEOUT": "2"})
    for outcome in outcomes[:-1]:
        found = outcome.found
        assert found is not None, outcome.output
        assert "HcclAllReduce #2 (fp32, 4 elements, sum)" in found["text"]
        assert f"rank {size - 1} (pid " in found["text"]
        assert "has not called it" in found["text"]
        assert found["code"] == E_TIMEOUT
        assert 1.9 < found["seconds"] < 1.9 + SOON
        assert found["again"]["seconds"] < 1  # the communicator stays failed


def test_hccl_exec_timeout_is_the_limit(tmp_path: Path) -> None:
    environment = {"TWIN_HCCL_TIMEOUT": "", "HCCL_EXEC_TIMEOUT": "4", "HCCL_CONNECT_TIMEOUT": "50"}
    outcome = run_ranks("late_rank", 2, tmp_path, environment=environment)[0]
    assert outcome.found is not None, outcome.output
    assert outcome.found["code"] == E_TIMEOUT
    assert "no progress for 4 s" in outcome.found["text"]


def test_absent_ranks_are_named(tmp_path: Path) -> None:
    environment = {"TWIN_HCCL_TIMEOUT": "", "HCCL_EXEC_TIMEOUT": "50", "HCCL_CONNECT_TIMEOUT": "1.5"}
    outcomes = run_ranks("absent_rank", 3, tmp_path, environment=environment)[:2]
    for outcome in outcomes:
        assert outcome.found is not None, outcome.output
        assert "rank 2 did not join the communicator within 1.5 s" in outcome.found["text"]
    # The second to give up may have heard it from the first.
    codes = {outcome.found["code"] for outcome in outcomes}
    assert E_TIMEOUT in codes and codes <= {E_TIMEOUT, E_REMOTE}


def test_rank_that_stops_taking_data_is_named(tmp_path: Path) -> None:
    outcome = run_ranks("stopped_rank", 2, tmp_path, environment={"TWIN_HCCL_TIMEOUT": "", "HCCL_EXEC_TIMEOUT": "4"})[0]
    assert outcome.found is not None, outcome.output
    assert "does not take its data" in outcome.found["text"]
    assert outcome.found["code"] == E_TIMEOUT


@pytest.mark.parametrize(("transport", "place"), TRANSPORTS, ids=["unix", "tcp"])
@pytest.mark.parametrize("worker", ["killed_idle", "killed_before_first_call", "killed_in_call"])
def test_killed_rank_is_found_at_once(worker: str, transport: dict[str, str], place: str, tmp_path: Path) -> None:
    outcomes = run_ranks(worker, 2, tmp_path, environment=transport)
    assert outcomes[1].exit_code == -signal.SIGKILL
    found = outcomes[0].found
    assert found is not None, outcomes[0].output
    assert "rank 1 (pid " in found["text"]
    assert f"{place}) is gone" in found["text"]
    assert found["code"] == E_REMOTE
    assert found["seconds"] < SOON


@pytest.mark.parametrize(("transport", "place"), TRANSPORTS, ids=["unix", "tcp"])
def test_a_rank_that_dies_while_the_ranks_meet_is_named_at_once(
    transport: dict[str, str], place: str, tmp_path: Path
) -> None:
    outcomes = run_ranks("killed_in_meeting", 3, tmp_path, environment=transport)
    assert outcomes[2].exit_code == -signal.SIGKILL
    for outcome in outcomes[:2]:
        assert outcome.found is not None, outcome.output
        assert "rank 2 (pid " in outcome.found["text"], outcome.found
        assert f"{place}) is gone" in outcome.found["text"]
        assert outcome.found["code"] == E_REMOTE
        assert outcome.found["seconds"] < SOON
    assert "rank 0 (pid " in outcomes[1].found["text"] and "gave up: " in outcomes[1].found["text"]


def test_all_survivors_learn_of_a_killed_rank(tmp_path: Path) -> None:
    outcomes = run_ranks("killed_in_call", 4, tmp_path)
    for rank in (0, 2, 3):
        found = outcomes[rank].found
        assert found is not None, outcomes[rank].output
        assert "rank 1 (pid " in found["text"]
        assert found["code"] == E_REMOTE
        assert found["seconds"] < SOON


@pytest.fixture(scope="module")
def mismatches(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, object]]]:
    outcomes = run_ranks("mismatch", 2, tmp_path_factory.mktemp("mismatch"))
    for outcome in outcomes:
        assert outcome.found is not None, outcome.output
    return [outcome.found for outcome in outcomes]


@pytest.mark.parametrize(
    ("kind", "ranks", "texts"),
    [
        ("operation", (0, 1), ("HcclAllReduce #2 (fp32, 4 elements, sum)", "HcclAllGather #2 (fp32, 4 elements)")),
        ("count", (0, 1), ("HcclAllReduce #2 (fp32, 4 elements, sum)", "HcclAllReduce #2 (fp32, 5 elements, sum)")),
        ("data_type", (0, 1), ("(fp32, 4 elements, sum)", "(int32, 4 elements, sum)")),
        ("reduction", (0, 1), ("4 elements, sum)", "4 elements, max)")),
        ("root", (0, 1), ("root 0)", "root 1)")),
        ("send_count", (1,), ("HcclSend #1 (fp32, 4 elements)", "HcclRecv #1 (fp32, 5 elements)")),
        ("send_for_collective", (1,), ("HcclSend #1 (fp32, 4 elements)", "HcclBroadcast #2 (fp32, 4 elements")),
        ("splits", (0,), ("rank 1 sends 12 bytes where 16 are expected",)),
        ("large_operation", (0, 1), ("HcclAllGather #2", "HcclBroadcast #2")),
    ],
)
def test_mismatch_is_named(
    kind: str, ranks: tuple[int, ...], texts: tuple[str, ...], mismatches: list[dict[str, dict[str, object]]]
) -> None:
    """`ranks` see both sides of the difference themselves; a rank that only sends hears of it later."""
    for rank in ranks:
        found = mismatches[rank][kind]
        text = str(found["text"])
        assert found["code"] == E_PARA, text
        assert f"rank {1 - rank} " in text
        for expected in texts:
            assert expected in text
        assert float(str(found["seconds"])) < SOON


def test_every_mismatch_has_a_test() -> None:
    mark = next(m for m in test_mismatch_is_named.pytestmark if m.name == "parametrize")
    assert [case[0] for case in mark.args[1]] == list(MISMATCHES)


def test_skipped_call_is_named(tmp_path: Path) -> None:
    first, second = run_ranks("skipped_call", 2, tmp_path)
    assert first.found is not None, first.output
    assert "rank 1 called HcclAllReduce #2" in first.found["text"]
    assert "this rank called HcclBroadcast #2" in first.found["text"]
    assert "rank 0 called HcclBroadcast #2" in second.found["text"]


def test_different_rank_counts_are_named(tmp_path: Path) -> None:
    outcome = run_ranks("wrong_size", 2, tmp_path, environment={"TWIN_HCCL_TIMEOUT": "", "HCCL_EXEC_TIMEOUT": "3"})[0]
    assert outcome.found is not None, outcome.output
    assert "rank 1 made this communicator for 3 ranks, this rank for 2" in outcome.found["text"]


def test_destroyed_peer_is_named(tmp_path: Path) -> None:
    outcome = run_ranks("peer_destroyed", 2, tmp_path)[0]
    assert outcome.found is not None, outcome.output
    assert "rank 1 (pid " in outcome.found["text"]
    assert "has destroyed its communicator" in outcome.found["text"]
    assert outcome.found["seconds"] < SOON


def test_bad_limit_is_refused(tmp_path: Path) -> None:
    outcome = run_ranks("names", 1, tmp_path, environment={"TWIN_HCCL_TIMEOUT": "soon"})[0]
    assert outcome.exit_code == 1
    assert "TWIN_HCCL_TIMEOUT=soon is not a positive number of seconds" in outcome.output


def test_nothing_lies_in_shared_memory_or_stays_after_sigkill(tmp_path: Path) -> None:
    outcomes = run_ranks("shared_memory", 2, tmp_path)
    user = f"@twin-hccl/u{os.geteuid()}/"
    for rank, outcome in enumerate(outcomes):
        assert outcome.exit_code == -signal.SIGKILL, outcome.output
        held, sockets = json.loads((tmp_path / f"held{rank}").read_text())
        assert held == []
        names = {line.split()[-1] for line in sockets.splitlines() if user in line and line.endswith(f"/r{rank}")}
        assert names  # the address carries user, job and rank
        assert not names & set(Path("/proc/self/net/unix").read_text().split())
    assert not [name for name in os.listdir("/dev/shm") if "hccl" in name]
