"""`inv rank-table`: ranks in torchrun's order, addresses of the NPUs' ports, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grstack import commands
from grstack.errors import DataError, NetworkError, UsageError
from grstack.launch import rank_table

FILES = {
    "10.0.0.1": "address_0=192.168.1.8\nnetmask_0=255.255.255.0\naddress_1=192.168.1.9\ngateway_0=192.168.1.1\n",
    "10.0.0.2": "# by hccn_tool\naddress_1=192.168.2.9\naddress_0=192.168.2.8\n",
}


def test_ranks_run_through_hosts_and_devices() -> None:
    """The example of HCCL's user guide: two servers with two devices each."""
    table = json.loads(rank_table.document(["10.0.0.1", "10.0.0.2"], "all", FILES.__getitem__))
    assert table == {
        "version": "1.0",
        "status": "completed",
        "server_count": "2",
        "server_list": [
            {
                "server_id": "10.0.0.1",
                "device": [
                    {"device_id": "0", "device_ip": "192.168.1.8", "rank_id": "0"},
                    {"device_id": "1", "device_ip": "192.168.1.9", "rank_id": "1"},
                ],
            },
            {
                "server_id": "10.0.0.2",
                "device": [
                    {"device_id": "0", "device_ip": "192.168.2.8", "rank_id": "2"},
                    {"device_id": "1", "device_ip": "192.168.2.9", "rank_id": "3"},
                ],
            },
        ],
    }


def test_devices_and_the_order_of_hosts_are_the_callers() -> None:
    table = json.loads(rank_table.document(["10.0.0.2", "10.0.0.1"], "1", FILES.__getitem__))
    found = [(s["server_id"], d["device_ip"], d["rank_id"]) for s in table["server_list"] for d in s["device"]]
    assert found == [("10.0.0.2", "192.168.2.9", "0"), ("10.0.0.1", "192.168.1.9", "1")]


@pytest.mark.parametrize(
    ("devices", "second", "error", "text"),
    [
        ("0-2", FILES["10.0.0.2"], DataError, "10.0.0.1 has no address for NPU 2"),
        ("all", "", DataError, "10.0.0.2 has no address for NPU 0"),
        ("all", "address_0=192.168.2.8\n", UsageError, "10.0.0.1 has 2, 10.0.0.2 has 1"),
        ("0", "address_0=192.168.1.8\n", DataError, "NPU 0 of 10.0.0.1 and NPU 0 of 10.0.0.2 have the same address"),
        ("0", "netmask_0=0\naddress_0=192.168.2\n", DataError, "'192.168.2' is no address"),
    ],
)
def test_what_hccl_could_not_use_is_refused(devices: str, second: str, error: type[Exception], text: str) -> None:
    files = {**FILES, "10.0.0.2": second}
    with pytest.raises(error, match=text.replace(".", r"\.")):
        rank_table.document(list(files), devices, files.__getitem__)


def test_hosts_come_from_a_list_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("node1 slots=8\n\n# node2 is away\nroot@node3  # rack 2\n")
    assert rank_table.hosts_of(str(file)) == ("node1", "root@node3")
    assert rank_table.hosts_of("a, b") == ("a", "b")
    for wrong, text in (
        ("", "^no host is named: --hosts A,B"),
        (",", "--hosts , names no host"),
        ("a,a", "names a twice"),
        ("a,-oProxyCommand=x", "is no host"),
    ):
        with pytest.raises(UsageError, match=text):
            rank_table.hosts_of(wrong)


def test_a_host_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(
        '#!/bin/sh\n[ "$5" = good ] && { echo address_0=10.1.1.1; exit; }\necho "Connection refused" >&2\nexit 255\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert rank_table.over_ssh("good") == "address_0=10.1.1.1\n"
    with pytest.raises(NetworkError, match="bad: Connection refused"):
        rank_table.over_ssh("bad")


def test_the_command_writes_what_it_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for host, text in FILES.items():
        (tmp_path / host).write_text(text)
    out = tmp_path / "rank_table.json"
    commands.rank_table("10.0.0.1,10.0.0.2", "all", folder=str(tmp_path))
    shown = capsys.readouterr().out
    commands.rank_table("10.0.0.1,10.0.0.2", "all", folder=str(tmp_path), out=str(out))
    assert out.read_text() == shown
    with pytest.raises(DataError, match="no copy of node9"):
        commands.rank_table("node9", "all", folder=str(tmp_path))
    commands.rank_table("10.0.0.1", "all", folder=str(tmp_path), out=str(out))
    assert f"export RANK_TABLE_FILE={out}" in "".join(capsys.readouterr().out.splitlines())
    with pytest.raises(UsageError, match="No such file") as error:
        commands.rank_table("10.0.0.1", "all", folder=str(tmp_path), out=str(tmp_path / "none/rt.json"))
    assert error.value.next_command == f"mkdir -p {tmp_path}/none"
