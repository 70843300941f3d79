"""Ranks of a distributed test that share one import (tests/start/forked_ranks.py) are as processes of their own."""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
import struct
import subprocess
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

IP_LOCAL_PORT_RANGE = 51  # of Linux 6.3; not in Python's module
FILE = Path(__file__).resolve().parents[1] / "start/forked_ranks.py"
SLOW = "import os\nprint('imported')\nstarted = os.getpid()\n"
PROGRAM = """
import atexit, dataclasses, os, sys, time
import beside, slow

@dataclasses.dataclass
class Told:
    rank: int

rank = Told(int(os.environ["RANK"]))
atexit.register(print, "end of", rank.rank)
print(sys.argv, __name__, os.environ["COMMON"], beside.value, os.getppid() == slow.started, sys.stdin.read() == "")
print("main", Told.__module__ == "__main__" and sys.modules["__main__"].rank is rank, file=sys.stderr)
if rank.rank == 1:
    sys.exit(7)
if rank.rank == 2:
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def forked_ranks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("forked_ranks", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def started(forked_ranks: ModuleType, folder: Path, imports: str) -> tuple[list[Any], list[Path]]:
    (folder / "slow.py").write_text(SLOW)
    (folder / "programs").mkdir()
    (folder / "programs/beside.py").write_text("value = 5\n")
    (folder / "programs/program.py").write_text(PROGRAM)
    logs = [folder / f"rank{rank}.log" for rank in range(3)]
    env = {**os.environ, "PYTHONPATH": str(folder), "COMMON": "all"}
    argv = [str(folder / "programs/program.py"), "a", "b"]
    return forked_ranks.start(imports, argv, env, [{"RANK": str(rank)} for rank in range(3)], logs), logs


def test_each_is_the_program_in_its_own_environment(forked_ranks: ModuleType, tmp_path: Path) -> None:
    ranks, logs = started(forked_ranks, tmp_path, "json,slow")
    assert [ranks[0].wait(60), ranks[1].wait(60)] == [0, 7]
    with pytest.raises(subprocess.TimeoutExpired):
        ranks[2].wait(0.2)
    assert ranks[2].poll() is None
    ranks[2].kill()
    assert ranks[2].wait(60) == ranks[2].returncode == -9
    ranks[2].kill()  # of one that has ended: nothing
    program = str(tmp_path / "programs/program.py")
    for rank, log in enumerate(logs[:2]):
        said = log.read_text()
        assert f"{[program, 'a', 'b']} __main__ all 5 True True\n" in said and "main True\n" in said, said
        assert said.endswith(f"end of {rank}\n") and said.count("imported") == (rank == 0), said


@pytest.mark.parametrize(
    ("used", "variable"), [(True, "OTHER=1"), (False, "GRSTACK_NPUS=2"), (False, "GRSTACK_FORK_RANKS=0")]
)
def test_ranks_begin_anew_behind_a_device(
    forked_ranks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: bool, variable: str
) -> None:
    monkeypatch.setenv(*variable.split("="))
    (tmp_path / "torch.py").write_text(f"class cuda:\n    _is_in_bad_fork = staticmethod(lambda: {used})\n")
    ranks, logs = started(forked_ranks, tmp_path, "torch,slow")
    assert [ranks[0].wait(60), ranks[1].wait(60)] == [0, 7]
    ranks[2].kill()
    assert ranks[2].wait(60) == -9
    program = str(tmp_path / "programs/program.py")
    for rank, log in enumerate(logs[:2]):
        said = log.read_text()
        assert f"{[program, 'a', 'b']} __main__ all 5 False True\n" in said, said
        assert said.endswith(f"end of {rank}\n") and said.count("imported") == 1 + (rank == 0), said


def test_ranks_are_killed_before_they_are_forked(forked_ranks: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(600)\n")
    ranks, _ = started(forked_ranks, tmp_path, "endless")
    for rank in ranks:
        rank.kill()
    assert [rank.wait(60) for rank in ranks] == [-9, -9, -9]


def test_an_import_that_fails_ends_all_and_is_told(forked_ranks: ModuleType, tmp_path: Path) -> None:
    ranks, logs = started(forked_ranks, tmp_path, "not_there")
    assert [rank.wait(60) for rank in ranks] == [1, 1, 1]
    for rank in ranks:
        rank.kill()
    assert "No module named 'not_there'" in logs[0].read_text() and logs[2].read_text() == ""


def test_when_one_fails_the_others_end(forked_ranks: ModuleType, tmp_path: Path) -> None:
    """The third would sleep for ten minutes."""
    ranks, _ = started(forked_ranks, tmp_path, "json,slow")
    began = time.monotonic()
    assert forked_ranks.wait(ranks, 300, patience=0.2) == [0, 7, -9]
    assert time.monotonic() - began < 60


def test_a_wait_has_a_limit(forked_ranks: ModuleType) -> None:
    processes = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    assert forked_ranks.wait(processes, 0.2) == [-9, -9]


@pytest.mark.parametrize("reuse", [False, True])
def test_nobody_else_is_given_the_port_where_ranks_meet(forked_ranks: ModuleType, reuse: bool) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        with forked_ranks.meeting() as place:
            port = int(place["MASTER_PORT"])
            try:  # the only port that the kernel may choose for this socket
                other.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("I", port << 16 | port))
            except OSError as error:
                assert error.errno == errno.ENOPROTOOPT
                pytest.skip("this kernel has no range of ports for a socket")
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        assert other.getsockname() == (place["MASTER_ADDR"], port)


def test_ranks_listen_on_the_port_where_they_meet(forked_ranks: ModuleType) -> None:
    """As PyTorch's store does, which sets SO_REUSEADDR: on every address, of IPv6 too where there are any."""
    with forked_ranks.meeting() as place:
        address = ("", int(place["MASTER_PORT"]))
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        with (
            socket.create_server(address, family=family, dualstack_ipv6=dual),
            socket.create_connection((place["MASTER_ADDR"], address[1])),
        ):
            pass
