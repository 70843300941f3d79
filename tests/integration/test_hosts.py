"""One job on two hosts, started by torchrun: collectives of emulated HCCL, and how failures are told."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.two_hosts import ADDRESSES, Hosts, two_hosts

CHECKS = "/source/twin/tests/hccl"
SOON = 10.0  # far below the ranks' own limit of 60 s
pytestmark = pytest.mark.image


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with two_hosts(tmp_path) as made:
        yield made


def test_all_collectives_between_hosts(hosts: Hosts) -> None:
    """Two ranks on each host: pairs on one host talk by Unix sockets, the others by TCP."""
    outputs = [
        process.communicate(timeout=240)[0] for process in hosts.torchrun(2, f"{CHECKS}/torch_checks.py", "/out")
    ]
    found = [json.loads(path.read_text()) for path in sorted(hosts.folder.glob("rank*.json"))]
    assert len(found) == 4, outputs
    for rank, checks in enumerate(found):
        assert {name: text for name, text in checks.items() if text != "ok"} == {}, f"rank {rank}"
        assert len(checks) > 40


@pytest.mark.parametrize(
    ("kind", "limit", "texts"),
    [
        ("killed", "60", ("rank 1 (pid ", f" at {ADDRESSES[1]}) is gone")),
        ("mismatch", "60", ("rank 1 ", "called HcclBroadcast #2", "this rank called HcclAllReduce #2")),
        ("cut", "4", ("HcclAllReduce #", "rank 1 (pid ", "no progress for 4 s")),
    ],
)
def test_failures_between_hosts_are_named(hosts: Hosts, kind: str, limit: str, texts: tuple[str, ...]) -> None:
    variables = {"TWIN_HCCL_TIMEOUT": "", "HCCL_EXEC_TIMEOUT": limit}
    processes = hosts.torchrun(1, f"{CHECKS}/torch_failures.py", kind, "/out", **variables)
    if kind == "cut":
        end = time.monotonic() + 120
        while not (hosts.folder / "ready1").exists():
            assert time.monotonic() < end, "the ranks did not start"
            time.sleep(0.05)
        hosts.cut()
        (hosts.folder / "cut").touch()
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    report = hosts.folder / "rank0.txt"
    # torchrun may end rank 0 in the same moment; the library has logged the text before.
    text = outputs[0]
    if report.exists():
        seconds, text = report.read_text().split("\n", 1)
        assert float(seconds) < SOON
    for expected in texts:
        assert expected in text, outputs[0]
