"""Which devices a command gets, and whether they can be used: looked at before a container is started."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from grstack.errors import DeviceError, UsageError
from grstack.launch import drivers, gpu, npu
from grstack.launch.access import Access, Flavour, Kind, mapped
from grstack.launch.machine import Machine
from grstack.launch.seen import Seen

CDI_ON = """Docker 25 or newer with {"features": {"cdi": true}} in /etc/docker/daemon.json"""
NO_CGROUPS = "sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place"
EXAMPLES: dict[Kind, str] = {
    "npu": 'inv run --platform cann --devices 0 "COMMAND"',
    "cuda": 'inv run --target cuda --devices 0 "COMMAND"',
}


@dataclass(frozen=True)
class Fault:
    what: str
    next_command: str


@dataclass(frozen=True, kw_only=True)
class Prepared:
    access: Access
    notes: tuple[str, ...]  # what the user must know


def look(kind: Kind, machine: Machine) -> Seen:
    return npu.look(machine) if kind == "npu" else gpu.look(machine)


def prepare(
    kind: Kind,
    wanted: str,
    machine: Machine,
    *,
    release: str,
    flavour: Flavour = "docker",
    force: bool = False,
    shown: bool = False,
    contained: bool = True,
) -> Prepared:
    """The devices that `wanted` names: numbers (`0,2-3`), `all`, or nothing: then one, the first that is free.

    `release` is the one of versions.yaml that says which driver is needed: CANN's, or torch's on cuda. What keeps them
    from being used raises DeviceError; it is a note under `force`, and where the run is only `shown`. Where it is not
    `contained`, nothing has to hand devices to a container.
    """
    seen = look(kind, machine)
    ids, notes = _choose(seen, wanted, EXAMPLES[kind], shown=shown)
    faults, more = _examine(kind, seen, ids, machine, release, flavour if contained else None)
    if faults and not (force or shown):
        raise DeviceError(
            "; ".join(fault.what for fault in faults),
            next_command=f"{faults[0].next_command}   (--force starts all the same)",
        )
    given = (npu if kind == "npu" else gpu).access(machine, ids, flavour, shown=shown)
    return Prepared(access=given, notes=(*notes, *more, *(fault.what for fault in faults)))


def _choose(seen: Seen, wanted: str, example: str, *, shown: bool) -> tuple[tuple[int, ...], list[str]]:
    if wanted == "all":
        if not seen.devices:
            following = "--devices 0-7: a line for another machine names its devices" if shown else "inv doctor"
            raise DeviceError(f"--devices all: this machine shows {seen.names()}", next_command=following)
        return tuple(device.id for device in seen.devices), []
    if wanted:
        return numbers(wanted, example), []
    free = [device.id for device in seen.devices if not device.busy]
    chosen = (free or [device.id for device in seen.devices] or [0])[0]
    others = "; --devices 0,1 or --devices all takes others" if len(seen.devices) > 1 else ""
    why = ", the first that is free" if free and len(seen.devices) > 1 else ""
    return (chosen,), [f"{seen.noun} {chosen} is used{why}{others}"]


def numbers(wanted: str, example: str = EXAMPLES["npu"]) -> tuple[int, ...]:
    """`0,2-3` as (0, 2, 3). Raises UsageError for anything else, and for a number twice."""
    found: list[int] = []
    for part in wanted.split(","):
        match = re.fullmatch(r"\s*(\d{1,3})(?:-(\d{1,3}))?\s*", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise UsageError(f"--devices {wanted}: numbers such as 0,1 or 0-3, or all", next_command=example)
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    if len(set(found)) < len(found):
        raise UsageError(f"--devices {wanted} names a device twice", next_command=example)
    return tuple(found)


def _examine(
    kind: Kind, seen: Seen, ids: Sequence[int], machine: Machine, release: str, flavour: Flavour | None
) -> tuple[list[Fault], list[str]]:
    faults: list[Fault] = []
    if seen.problem:
        faults.append(Fault(f"{seen.command} says: {seen.problem}", seen.command))
    faults += _there(seen, ids)
    if kind == "npu":
        faults += _npu_parts(seen, machine)
    elif flavour is not None:
        faults += _gpu_parts(seen, machine, flavour)
    if flavour is not None and mapped(machine, flavour):
        faults += _closed(machine, (npu if kind == "npu" else gpu).opened(tuple(ids)))
    needs = (drivers.NPU if kind == "npu" else drivers.GPU).get(release)
    driver_faults, notes = _driver(seen, needs)
    sick = [d for number in ids if (d := seen.device(number)) is not None and d.health != "OK"]
    notes += _unasked(kind, machine, flavour)
    notes += [f"{seen.noun} {device.id} reports health {device.health}" for device in sick]
    return faults + driver_faults, notes


def _there(seen: Seen, ids: Sequence[int]) -> list[Fault]:
    if seen.problem and not seen.devices:
        return []
    faults: list[Fault] = []
    known = ", ".join(str(device.id) for device in seen.devices)
    here = f"this machine has {seen.noun}s {known}" if known else f"this machine shows no {seen.noun}"
    missing = [str(number) for number in ids if seen.device(number) is None]
    if missing:
        faults.append(Fault(f"no {seen.noun} {', '.join(missing)}: {here}", seen.command if known else "inv doctor"))
    free = ",".join(str(device.id) for device in seen.devices if not device.busy)
    for number in ids:
        device = seen.device(number)
        if device is not None and device.busy:
            following = f"{seen.command}, or --devices {free}" if free else seen.command
            faults.append(Fault(f"{seen.noun} {number} is busy: {device.busy}", following))
    return faults


def _npu_parts(seen: Seen, machine: Machine) -> list[Fault]:
    if not seen.devices:
        return []
    missing = [node for node in npu.MANAGEMENT if not machine.has(node)]
    return [Fault(f"{', '.join(missing)} is missing", "sudo npu-smi info, then dmesg")] if missing else []


def _gpu_parts(seen: Seen, machine: Machine, flavour: Flavour) -> list[Fault]:
    if flavour == "podman":
        make = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        said = "no CDI description of the GPUs, by which podman hands them to a container"
        return [] if machine.those(gpu.CDI) else [Fault(said, make)]
    docker = machine.docker
    if seen.helper == "CDI" and docker.version and not docker.cdi:
        lacks = "takes no devices by CDI: it is older than 25, or that is off"
        said = f"no NVIDIA Container Toolkit, and Docker {docker.version} {lacks}"
        return [Fault(said, f"{gpu.INSTALL}; or {CDI_ON}")]
    if seen.helper:
        return []
    return [Fault("no NVIDIA Container Toolkit, by which docker hands GPUs to a container", gpu.INSTALL)]


def _closed(machine: Machine, nodes: Sequence[str]) -> list[Fault]:
    """Nodes that no container of a rootless engine can open: it has none of its user's groups."""
    closed = [node for node in machine.those(nodes) if machine.groups_of([node])]
    if not closed:
        return []
    lacks = "containers of rootless Docker have no groups of this machine"
    said = f"{', '.join(closed)} is open to a group alone, and {lacks}"
    return [Fault(said, "docker context use default, or the same with --print podman")]


def _unasked(kind: Kind, machine: Machine, flavour: Flavour | None) -> list[str]:
    """What must be known of the engine for GPUs, and cannot be asked."""
    if kind != "cuda" or flavour != "docker":
        return []
    if gpu.by_cdi(machine) and not machine.docker.version:
        return ["no engine answers: whether it takes devices by CDI (Docker 25 or newer) was not looked at"]
    if mapped(machine, flavour) and not gpu.by_cdi(machine):
        return [f"rootless Docker: the NVIDIA Container Toolkit must leave control groups alone: {NO_CGROUPS}"]
    return []


def _driver(seen: Seen, needs: drivers.Needs | None) -> tuple[list[Fault], list[str]]:
    if seen.problem and not seen.driver:
        return [], []
    if not seen.driver:
        return [Fault(f"this machine has no {seen.noun} driver", "inv doctor")], []
    notes = [] if seen.tool else [f"no {seen.command.split()[0]}: whether the {seen.noun} is busy was not looked at"]
    if needs is None:
        return [], [*notes, "whether the driver is new enough is not known: grstack/launch/drivers.py has no row"]
    try:
        if drivers.older(seen.driver, needs.oldest):
            what = (
                f"driver {seen.driver} is too old: {needs.toolkit} needs {needs.oldest}, and came with {needs.paired}"
            )
            return [Fault(what, f"install driver {needs.paired} ({needs.source})")], notes
        if drivers.older(seen.driver, needs.paired):
            notes.append(f"driver {seen.driver} works with {needs.toolkit}, which came with {needs.paired}")
    except ValueError as error:
        notes.append(f"{error}: whether it is new enough was not looked at")
    return [], notes
