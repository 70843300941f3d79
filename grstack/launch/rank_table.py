"""HCCL's rank table of Atlas A2 hosts: which NPU of which host has which rank, and the address of that NPU's own port.

Ranks run through the hosts in the given order and through each host's devices, as torchrun counts them. Version 1.0 of
the file; Atlas A3 has another, with numbers of its supernodes.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from grstack.ask import ask
from grstack.errors import DataError, NetworkError, UsageError
from grstack.launch.npu import NETWORK
from grstack.launch.prepare import numbers

Read = Callable[[str], str]  # a host's /etc/hccn.conf

EXAMPLE = "inv rank-table --hosts 10.0.0.1,10.0.0.2"


def hosts_of(given: str) -> tuple[str, ...]:
    """`a,b`, or the lines of a file; of a line the first word, so that the host files of MPI and DeepSpeed will do."""
    file = Path(given)
    lines = file.read_text().splitlines() if file.is_file() else given.split(",")
    words = [line.split("#")[0].split() for line in lines]
    hosts = tuple(word[0] for word in words if word)
    twice = sorted({host for host in hosts if hosts.count(host) > 1})
    if not given:
        raise UsageError("no host is named: --hosts A,B, or --hosts FILE", next_command=EXAMPLE)
    if not hosts or twice:
        what = f"names {', '.join(twice)} twice" if twice else "names no host"
        raise UsageError(f"--hosts {given} {what}", next_command=EXAMPLE)
    if wrong := [
        host for host in hosts if not re.fullmatch(r"(?!-)([\w.-]+@)?[\w.:-]{1,63}", host)
    ]:  # a server_id's limit
        raise UsageError(f"--hosts {given}: '{wrong[0]}' is no host's name or address", next_command=EXAMPLE)
    return hosts


def server_id(host: str) -> str:
    """The host without the user's name for ssh."""
    return host.rpartition("@")[2]


def over_ssh(host: str) -> str:
    answer = ask(["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host, f"cat {NETWORK}"])
    if answer.code:
        said = answer.errors.strip().splitlines()
        raise NetworkError(
            f"{host}: {said[-1] if said else f'exit code {answer.code}'}",
            where=f"{NETWORK} of {host}, over ssh",
            next_command=f"ssh {host} cat {NETWORK}; where ssh is not allowed, copies in a folder: --from FOLDER",
        )
    return answer.output


def copies(folder: Path) -> Read:
    """Reads `FOLDER/HOST`, a copy of that host's file."""

    def read(host: str) -> str:
        try:
            return (folder / host).read_text()
        except OSError as error:
            raise DataError(
                f"no copy of {host}'s {NETWORK}: {error.strerror}",
                where=str(folder / host),
                next_command=f"scp {host}:{NETWORK} {folder / host}",
            ) from None

    return read


def addresses(host: str, text: str) -> dict[int, str]:
    """The lines `address_N=IP` of a host's file."""
    found: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = re.fullmatch(r"\s*address_(\d+)\s*=\s*(\S+)\s*", line)
        if match is None:
            continue
        try:
            found[int(match[1])] = str(ipaddress.ip_address(match[2]))
        except ValueError:
            raise DataError(
                f"'{match[2]}' is no address", where=f"{host}:{NETWORK}, line {number}", next_command=_show(match[1])
            ) from None
    return found


def document(hosts: Sequence[str], devices: str, read: Read) -> str:
    """The file's text. `devices`: `0,2-3`, the same on every host, or `all` that have an address there."""
    found = {host: addresses(host, read(host)) for host in hosts}
    chosen = {host: _chosen(host, devices, there) for host, there in found.items()}
    _refuse_doubles(found, chosen)
    counts = {host: len(ids) for host, ids in chosen.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{host} has {count}" for host, count in counts.items())
        raise UsageError(
            f"torchrun starts the same number of processes on every host, but {listed} NPUs with an address",
            next_command=f"{EXAMPLE} --devices 0-{min(counts.values()) - 1}",
        )
    rank = 0
    servers = []
    for host, ids in chosen.items():
        listed_devices = []
        for device in ids:
            listed_devices.append({"device_id": str(device), "device_ip": found[host][device], "rank_id": str(rank)})
            rank += 1
        servers.append({"server_id": server_id(host), "device": listed_devices})
    table = {"version": "1.0", "status": "completed", "server_count": str(len(servers)), "server_list": servers}
    return json.dumps(table, indent=2) + "\n"


def _chosen(host: str, devices: str, there: Mapping[int, str]) -> tuple[int, ...]:
    wanted = tuple(sorted(there)) if devices == "all" else numbers(devices)
    missing = [str(device) for device in wanted if device not in there] or ([] if wanted else ["0"])
    if missing:
        raise DataError(
            f"{host} has no address for NPU {', '.join(missing)}",
            where=f"{host}:{NETWORK}",
            next_command=_show(missing[0]),
        )
    return wanted


def _refuse_doubles(found: Mapping[str, Mapping[int, str]], chosen: Mapping[str, Sequence[int]]) -> None:
    owner: dict[str, str] = {}
    for host, ids in chosen.items():
        for device in ids:
            address, here = found[host][device], f"NPU {device} of {host}"
            if address in owner:
                raise DataError(
                    f"{owner[address]} and {here} have the same address {address}",
                    where=f"{host}:{NETWORK}",
                    next_command=_show(str(device)),
                )
            owner[address] = here


def _show(device: str) -> str:
    return f"on that host: hccn_tool -i {device} -ip -g"
