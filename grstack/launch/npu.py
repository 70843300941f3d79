"""Ascend NPUs: /dev/davinciN, the driver's files, `npu-smi info`, Ascend Docker Runtime."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from grstack import ascend, host
from grstack.launch.access import Access, Flavour, mapped
from grstack.launch.machine import Machine
from grstack.launch.seen import Device, Process, Seen

NOUN = "NPU"
MANAGEMENT = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
VERSION = f"{ascend.DRIVER}/version.info"
DCMI = "/usr/local/dcmi"  # the library of npu-smi
INSTALLED = "/etc/ascend_install.info"  # names the driver's user and folder
NETWORK = "/etc/hccn.conf"  # addresses of the NPUs' own ports, which HCCL reads between hosts
SMI = "/usr/local/bin/npu-smi"  # older drivers have it in sbin
RUNTIME_MOUNTS = "/etc/ascend-docker-runtime.d/base.list"


def look(machine: Machine) -> Seen:
    nodes = machine.path("/dev").glob("davinci[0-9]*")
    ids = sorted(int(node.name.removeprefix("davinci")) for node in nodes if node.name[7:].isdigit())
    driver = host.field_of(machine.path(VERSION), "Version") or ""
    tool = machine.tool("npu-smi")
    listed: dict[int, Device] = {}
    problem = ""
    if tool:
        answer = machine.ask(tool, "info")
        listed = {device.id: device for device in parse(answer.output)}
        if answer.code or (ids and not listed):
            said = (answer.errors.strip() or answer.output.strip()).splitlines()
            problem = said[-1].strip() if said else f"exit code {answer.code}"
    return Seen(
        noun=NOUN,
        tool=tool,
        command="npu-smi info",
        driver=driver,
        devices=tuple(listed.get(number, Device(id=number)) for number in ids),
        problem=problem,
        helper="Ascend Docker Runtime" if _runtime(machine) else "",
    )


@dataclass(frozen=True)
class _Chip:
    npu: int
    chip: int
    id: int
    name: str
    health: str


def parse(text: str) -> list[Device]:
    """The table of `npu-smi info`: two lines for a chip, then a table of processes by NPU and chip.

    A board with one chip has the number of its device in the first line. One with two has it in the second, in a
    column of its own (`Phy-ID`, or `Device`).
    """
    chips: list[_Chip] = []
    processes: dict[tuple[int, int], list[Process]] = {}
    first: tuple[int, str, str] | None = None
    in_processes = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        words = cells[0].split()
        if "Process id" in line:
            in_processes = True
        elif not words or not words[0].isdigit():
            continue
        elif in_processes:
            if len(cells) >= 3 and len(words) == 2 and cells[1].isdigit():
                process = Process(pid=int(cells[1]), name=cells[2])
                processes.setdefault((int(words[0]), int(words[1])), []).append(process)
        elif len(cells) >= 3 and re.fullmatch(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+", cells[1]) and first:
            npu, name, health = first
            chip, number = int(words[0]), int(words[1]) if len(words) > 1 else npu
            chips.append(_Chip(npu, chip, number, name, health))
            first = None
        elif len(cells) >= 3 and len(words) >= 2:
            first = (int(words[0]), words[1], cells[1])
    return [
        Device(id=c.id, name=c.name, health=c.health, processes=tuple(processes.get((c.npu, c.chip), ())))
        for c in chips
    ]


def opened(ids: tuple[int, ...]) -> tuple[str, ...]:
    """The nodes that a program with these devices opens."""
    return (*(f"/dev/davinci{number}" for number in ids), *MANAGEMENT)


def access(machine: Machine, ids: tuple[int, ...], flavour: Flavour, *, shown: bool = False) -> Access:
    """What a container needs beside its image. `shown`: for a reader, where this machine may have no driver."""
    nodes = opened(ids)
    listed = ",".join(map(str, ids))
    elsewhere = shown and not machine.has(ascend.DRIVER)
    given = Access.with_bounds(
        machine,
        "npu",
        flavour,
        ids,
        opened=nodes,
        elsewhere=elsewhere,
        process_env={"ASCEND_RT_VISIBLE_DEVICES": listed},
    )
    files: tuple[str, ...] = (ascend.DRIVER, DCMI, machine.tool("npu-smi"), INSTALLED, NETWORK)
    # a rootless engine does not read the settings that name the runtime
    if flavour == "docker" and not mapped(machine, flavour) and (runtime := _runtime(machine)):
        brought = set(machine.text(RUNTIME_MOUNTS).split())
        files = tuple(file for file in (VERSION, INSTALLED, NETWORK) if file not in brought)
        env = {"ASCEND_VISIBLE_DEVICES": listed}
        return replace(given, runtime=runtime, env=env, files=machine.those(files))
    usual = (ascend.DRIVER, DCMI, SMI, INSTALLED, NETWORK) if elsewhere else ()
    # a node that is missing is said, and under --force the others are passed
    there = nodes if shown else machine.those(nodes)
    return replace(given, nodes=there, files=usual or machine.those(file for file in files if file))


def _runtime(machine: Machine) -> str:
    """The name under which Docker knows Ascend Docker Runtime; empty where it is not installed."""
    settings = machine.document("/etc/docker/daemon.json")
    runtimes = settings.get("runtimes") if isinstance(settings, dict) else None
    found = runtimes if isinstance(runtimes, dict) else {}
    named = (name for name, value in found.items() if isinstance(value, dict) and _is_ascend(value.get("path")))
    return next(named, "")


def _is_ascend(path: object) -> bool:
    return isinstance(path, str) and path.rpartition("/")[2] == "ascend-docker-runtime"
