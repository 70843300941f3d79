"""NVIDIA GPUs: `nvidia-smi`, the NVIDIA Container Toolkit, the Container Device Interface (CDI)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace

from grstack.launch.access import Access, Flavour, mapped
from grstack.launch.machine import Machine
from grstack.launch.seen import Device, Process, Seen

NOUN = "GPU"
CDI = ("/etc/cdi/nvidia.yaml", "/etc/cdi/nvidia.json", "/var/run/cdi/nvidia.yaml", "/var/run/cdi/nvidia.json")
TOOLKIT = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")  # what docker's --gpus starts
INSTALL = (
    "add NVIDIA's package repository (docs.nvidia.com: Installing the NVIDIA Container Toolkit), then"
    " sudo apt-get install -y nvidia-container-toolkit && sudo nvidia-ctk runtime configure --runtime=docker"
    " && sudo systemctl restart docker"
)
_DEVICES = ("--query-gpu=index,uuid,name,driver_version", "--format=csv,noheader")
_PROCESSES = ("--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader")


def look(machine: Machine) -> Seen:
    tool = machine.tool("nvidia-smi")
    helper = "NVIDIA Container Toolkit" if _has_toolkit(machine) else "CDI" if machine.those(CDI) else ""
    if not tool:
        return Seen(noun=NOUN, command="nvidia-smi", helper=helper)
    devices = machine.ask(tool, *_DEVICES)
    processes = machine.ask(tool, *_PROCESSES)
    if devices.code:
        said = (devices.output + devices.errors).strip().splitlines()
        problem = said[0].strip() if said else f"exit code {devices.code}"
        return Seen(noun=NOUN, tool=tool, command="nvidia-smi", problem=problem, helper=helper)
    found, driver = parse(devices.output, processes.output if not processes.code else "")
    return Seen(noun=NOUN, tool=tool, command="nvidia-smi", driver=driver, devices=tuple(found), helper=helper)


def absent(machine: Machine) -> bool:
    """Neither a GPU nor its driver: a device node, or the driver's own program, would say otherwise."""
    return not machine.tool("nvidia-smi") and not machine.has("/dev/nvidiactl")


def parse(devices: str, processes: str) -> tuple[list[Device], str]:
    """The devices, and the driver's version, of nvidia-smi's answers to `_DEVICES` and `_PROCESSES`."""
    users: dict[str, list[Process]] = {}
    for row in _rows(processes, 3):
        if row[1].isdigit():
            users.setdefault(row[0], []).append(Process(pid=int(row[1]), name=row[2].rpartition("/")[2]))
    found: list[Device] = []
    driver = ""
    for row in _rows(devices, 4):
        if row[0].isdigit():
            found.append(Device(id=int(row[0]), name=row[2], processes=tuple(users.get(row[1], ()))))
            driver = row[3]
    return found, driver


def _rows(text: str, columns: int) -> Iterator[list[str]]:
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(row) >= columns:
            yield [cell.strip() for cell in row]


def access(machine: Machine, ids: tuple[int, ...], flavour: Flavour, *, shown: bool = False) -> Access:
    """What a container needs beside its image: the toolkit knows the driver's files.

    `shown`: for a reader, where this machine may have no driver.
    """
    listed = ",".join(map(str, ids))
    driver = bool(machine.tool("nvidia-smi"))
    there = shown or driver
    hook = flavour == "docker" and not by_cdi(machine)
    given = Access.with_bounds(
        machine,
        "cuda",
        flavour,
        ids,
        opened=opened(ids),
        elsewhere=shown and not driver,
        # CUDA's own order is by speed, nvidia-smi's numbers are by the bus
        process_env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": listed},
    )
    return replace(
        given,
        # docker reads the option as CSV: quotes keep the list one field
        gpus=f'"device={listed}"' if there and hook else "",
        cdi=() if hook or not there else tuple(f"nvidia.com/gpu={number}" for number in ids),
    )


def opened(ids: tuple[int, ...]) -> tuple[str, ...]:
    """The nodes that a program with these devices opens. A device's number is here taken for its minor number."""
    return (*(f"/dev/nvidia{number}" for number in ids), "/dev/nvidiactl", "/dev/nvidia-uvm")


def by_cdi(machine: Machine) -> bool:
    """Whether Docker is given names of CDI. The toolkit's hook sets up device control groups, which a rootless engine
    may not."""
    if not machine.those(CDI):
        return False
    return not _has_toolkit(machine) or (mapped(machine, "docker") and machine.docker.cdi)


def _has_toolkit(machine: Machine) -> bool:
    return any(machine.tool(name) for name in TOOLKIT)
