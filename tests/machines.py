"""Machines that are folders: device nodes, a driver's files, and programs that answer as npu-smi and nvidia-smi do.

Nothing of it is hardware. The tables have the form that the vendors' manuals show.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from grstack.launch.machine import Machine

EDGE = "+---------------------------+---------------+----------------------------------------------------+"
LINE = "+===========================+===============+====================================================+"
Processes = Mapping[tuple[int, int], Sequence[tuple[int, str]]]  # by NPU and chip: number and name


def npu_smi_info(
    npus: Iterable[int],
    processes: Processes | None = None,
    *,
    name: str = "910B3",
    chips: int = 1,
    health: Mapping[int, str] | None = None,
) -> str:
    """What `npu-smi info` prints. With two chips on a board each has a column with the number of its device."""
    processes = processes or {}
    boards = list(npus)
    column = "Chip  Phy-ID" if chips > 1 else "Chip"
    text = [
        "+------------------------------------------------------------------------------------------------+",
        "| npu-smi 25.3.rc1                 Version: 25.3.rc1                                             |",
        EDGE,
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        f"| {column:<25} | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        LINE,
    ]
    for npu in boards:
        for chip in range(chips):
            number = f"{chip}     {npu * chips + chip}" if chips > 1 else f"{chip}"
            state = (health or {}).get(npu, "OK")
            text += [
                f"| {npu:<5} {name:<19} | {state:<13} | 91.3        36                0    / 0             |",
                f"| {number:<25} | 0000:C1:00.0  | 0           0    / 0          3465 / 65536         |",
                LINE,
            ]
    text += [EDGE, "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |"]
    for npu in boards:
        text.append(LINE)
        rows = [(chip, row) for chip in range(chips) for row in processes.get((npu, chip), ())]
        text += [
            f"| {npu:<7} {chip:<17} | {pid:<13} | {what:<24} | 37709                   |" for chip, (pid, what) in rows
        ]
        if not rows:
            text.append(f"| No running processes found in NPU {npu:<61}|")
    return "\n".join([*text, LINE, ""])


def program(root: Path, place: str, text: str) -> None:
    file = root / place.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def docker(
    root: Path,
    *,
    version: str = "27.5.1",
    rootless: bool = False,
    cdi: bool = False,
    name: str = "",
    calls: Path | None = None,
) -> None:
    """The command `docker` of the machine below `root`, which knows `docker info` alone. `calls`: a line for each."""
    info = {
        "ServerVersion": version,
        "Name": name or socket.gethostname(),
        "SecurityOptions": ["name=seccomp,profile=builtin", *(["name=rootless"] if rootless else [])],
        "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"] if cdi else [],
    }
    root.mkdir(parents=True, exist_ok=True)
    (root / "info.json").write_text(json.dumps(info))
    counted = f'echo >> "{calls}"; ' if calls else ""
    program(root, "/usr/bin/docker", f'[ "$1" = info ] || exit 2; {counted}cat "{root}/info.json"')


def atlas(
    root: Path,
    *,
    devices: Iterable[int] = range(8),
    driver: str | None = "25.3.rc1",
    info: str | None = None,
    runtime: bool = False,
    uid: int = 0,
) -> Machine:
    """A host with NPUs. `info`: what npu-smi prints (default: all are idle); `runtime`: Ascend Docker Runtime."""
    numbers = list(devices)
    names = [*(f"davinci{number}" for number in numbers), "davinci_manager", "devmm_svm", "hisi_hdc"]
    for name in names if numbers else ():
        node = root / "dev" / name
        node.parent.mkdir(parents=True, exist_ok=True)
        node.touch()
        node.chmod(0o666)
    if driver is not None:
        (root / "usr/local/Ascend/driver/lib64").mkdir(parents=True)
        (root / "usr/local/Ascend/driver/version.info").write_text(f"Version={driver}\nascendhal_version=7.35.23\n")
        (root / "usr/local/dcmi").mkdir(parents=True)
        (root / "etc").mkdir(exist_ok=True)
        (root / "etc/ascend_install.info").write_text("UserName=HwHiAiUser\n")
        (root / "etc/hccn.conf").write_text("address_0=10.0.0.2\n")
        (root / "npu-smi.txt").write_text(npu_smi_info(numbers) if info is None else info)
        program(root, "/usr/local/bin/npu-smi", f'[ "$1" = info ] && cat "{root}/npu-smi.txt"')
    if runtime:
        (root / "etc/docker").mkdir(parents=True)
        path = "/usr/local/Ascend/Ascend-Docker-Runtime/ascend-docker-runtime"
        (root / "etc/docker/daemon.json").write_text(json.dumps({"runtimes": {"ascend": {"path": path}}}))
        (root / "etc/ascend-docker-runtime.d").mkdir()
        brought = ["/usr/local/Ascend/driver/lib64", "/usr/local/dcmi", "/usr/local/bin/npu-smi"]
        (root / "etc/ascend-docker-runtime.d/base.list").write_text("\n".join(brought) + "\n")
    return Machine(root=root, uid=uid, gid=uid)


def gpu_host(
    root: Path,
    *,
    devices: Iterable[int] = range(2),
    driver: str = "570.124.06",
    processes: Sequence[tuple[int, int, str]] = (),
    toolkit: bool = True,
    cdi: bool = False,
    nodes: bool = False,
    broken: str = "",
    uid: int = 0,
) -> Machine:
    """A host with GPUs. `processes`: GPU, number, path; `broken`: what nvidia-smi says, with exit code 9."""
    rows = [f"{number}, GPU-0000000{number}-aaaa, NVIDIA H100 80GB HBM3, {driver}" for number in devices]
    used = [f"GPU-0000000{gpu}-aaaa, {pid}, {path}" for gpu, pid, path in processes]
    root.mkdir(parents=True, exist_ok=True)
    (root / "gpus.csv").write_text("".join(f"{row}\n" for row in rows))
    (root / "processes.csv").write_text("".join(f"{row}\n" for row in used))
    answer = (
        f'case "$1" in --query-gpu=*) cat "{root}/gpus.csv";; --query-compute-apps=*) cat "{root}/processes.csv";; esac'
    )
    program(root, "/usr/bin/nvidia-smi", f'echo "{broken}"; exit 9' if broken else answer)
    if nodes:
        (root / "dev").mkdir()
        for name in (*(f"nvidia{number}" for number in devices), "nvidiactl", "nvidia-uvm"):
            (root / "dev" / name).touch()
            (root / "dev" / name).chmod(0o666)
    if toolkit:
        program(root, "/usr/bin/nvidia-container-runtime-hook", "exit 0")
    if cdi:
        (root / "etc/cdi").mkdir(parents=True)
        (root / "etc/cdi/nvidia.yaml").write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    return Machine(root=root, uid=uid, gid=uid)
