"""The same collectives and the same detection of failures when the ranks talk TCP, as they do between hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hccl_api import E_PARA, E_TIMEOUT
from launch import run_ranks
from test_failures import SOON, TCP
from test_torch import check_names, torchrun

pytestmark = pytest.mark.twin


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("worker", ["reductions", "large_reductions", "movement"])
def test_values(worker: str, size: int, tmp_path: Path) -> None:
    for outcome in run_ranks(worker, size, tmp_path, environment=TCP):
        assert outcome.found == "ok", outcome.output


def test_point_to_point(tmp_path: Path) -> None:
    for outcome in run_ranks("point_to_point", 4, tmp_path, environment=TCP):
        assert outcome.found == "ok", outcome.output


def test_communicators_progress_independently(tmp_path: Path) -> None:
    first, second = run_ranks("independent_communicators", 2, tmp_path, environment=TCP)
    assert first.found is not None, first.output
    assert first.found == second.found


def test_no_unix_socket_carries_the_data(tmp_path: Path) -> None:
    """The ranks are connected with each other at addresses of the internet family."""
    for rank, outcome in enumerate(run_ranks("connections", 2, tmp_path, environment=TCP)):
        assert outcome.found is not None, outcome.output
        assert outcome.found["tcp"] == 1, f"rank {rank}: {outcome.found}"
        assert outcome.found["unix"] == 0, f"rank {rank}: {outcome.found}"


def test_late_and_absent_ranks_are_named(tmp_path: Path) -> None:
    limits = {"TWIN_HCCL_TIMEOUT": "", "HCCL_EXEC_TIMEOUT": "2", "HCCL_CONNECT_TIMEOUT": "2"}
    late = run_ranks("late_rank", 2, tmp_path / "late", environment={**TCP, **limits})[0]
    assert late.found is not None, late.output
    assert "rank 1 (pid " in late.found["text"] and "has not called it" in late.found["text"]
    assert late.found["code"] == E_TIMEOUT
    for outcome in run_ranks("absent_rank", 3, tmp_path / "absent", environment={**TCP, **limits})[:2]:
        assert outcome.found is not None, outcome.output
        assert "rank 2 did not join the communicator within 2 s" in outcome.found["text"]


def test_mismatches_are_named(tmp_path: Path) -> None:
    for outcome in run_ranks("mismatch", 2, tmp_path, environment=TCP):
        assert outcome.found is not None, outcome.output
        for kind, found in outcome.found.items():
            if kind == "send_count" or kind.startswith("send_for") or kind == "splits":
                continue  # one side sees these, the other hears of them later
            assert found["code"] == E_PARA, (kind, found)
            assert found["seconds"] < SOON


def test_different_rank_counts_are_told(tmp_path: Path) -> None:
    limits = {"TWIN_HCCL_TIMEOUT": "", "HCCL_EXEC_TIMEOUT": "3", "HCCL_CONNECT_TIMEOUT": "3"}
    outcomes = run_ranks("wrong_size", 2, tmp_path, environment={**TCP, **limits})
    # Whoever comes second is refused: when it makes the communicator, or at its first call.
    assert any("disagree on how many they are" in outcome.output for outcome in outcomes), outcomes


def test_a_stranger_is_turned_away(tmp_path: Path) -> None:
    """A connection that does not know the job's secret neither disturbs the list of ranks nor becomes a rank."""
    for outcome in run_ranks("strangers", 2, tmp_path, environment=TCP):
        assert outcome.found == "ok", outcome.output


def test_the_list_of_ranks_ends_with_a_failed_initialisation(tmp_path: Path) -> None:
    outcome = run_ranks("failed_initialisation", 1, tmp_path, environment={**TCP, "TWIN_HCCL_TIMEOUT": ""})[0]
    assert outcome.found is not None, outcome.output
    before, serving, after = outcome.found
    assert (serving, after) == (before + 1, before)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"TWIN_HCCL_TRANSPORT": "carrier-pigeon"}, "is not one of auto, tcp and unix"),
        ({"HCCL_IF_IP": "192.0.2.1"}, "this host cannot listen at 192.0.2.1"),
        ({"HCCL_IF_IP": "nowhere"}, "nowhere is not a numeric address"),
        ({"HCCL_SOCKET_IFNAME": "=absent0"}, "HCCL_SOCKET_IFNAME==absent0 allows none of this host's interfaces: lo"),
    ],
)
def test_bad_settings_are_refused(variables: dict[str, str], text: str, tmp_path: Path) -> None:
    outcome = run_ranks("names", 1, tmp_path, environment=variables)[0]
    assert outcome.exit_code == 1
    assert text in outcome.output


def test_interface_rules(tmp_path: Path) -> None:
    for rule in ("lo", "=lo", "absent,lo", "^absent"):
        outcome = run_ranks("names", 1, tmp_path / rule.strip("=^"), environment={"HCCL_SOCKET_IFNAME": rule})[0]
        assert outcome.exit_code == 0, f"{rule}: {outcome.output}"


@pytest.mark.slow  # tests/integration/test_hosts.py has the same checks between two hosts
def test_torch_npu_over_tcp(tmp_path: Path) -> None:
    done = torchrun("torch_checks.py", 2, str(tmp_path), **TCP)
    results = sorted(tmp_path.glob("rank*.json"))
    assert len(results) == 2, done.stderr
    for path in results:
        found = json.loads(path.read_text())
        assert sorted(found) == sorted(check_names())
        assert {name: text for name, text in found.items() if text != "ok"} == {}
    assert done.returncode == 0, done.stderr
