"""What is installed and which devices are emulated, without torch being imported."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ascend_twin.home import version_info

HBM = 1  # ACL_HBM_MEM
PACKAGES = ("torch", "torch_npu")
# torch_npu declares none of what it imports, and asks for a build of torch that indexes do not carry.
INSTALL = (
    'pip install torch=={torch} numpy pyyaml attrs decorator psutil scipy packaging "setuptools<81"',
    "pip install --no-deps torch_npu=={torch_npu}",
)


class RuntimeFault(RuntimeError):
    """The emulated runtime refused; the text is its own."""


@dataclass(frozen=True, kw_only=True)
class Device:
    id: int
    name: str  # the chip that it answers as
    memory_free: int  # bytes, of the limit per process
    memory_total: int


@dataclass(frozen=True, kw_only=True)
class Info:
    emulated: bool
    version: str  # of the wheel
    home: str
    cann: str  # the toolkit that the emulation answers as
    streams: str  # TWIN_STREAMS: free or strict
    python: str
    packages: dict[str, str]
    made_for: dict[str, str]
    devices: tuple[Device, ...]

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def gather(home: Path) -> Info:
    """Raises RuntimeFault when a TWIN_* or ASCEND_* setting is malformed."""
    return Info(
        emulated=True,
        version=_installed("ascend_twin") or "not installed as a package",
        home=str(home),
        cann=os.environ.get("TWIN_CANN_VERSION") or version_info(home).get("Version", "unknown"),
        streams=os.environ.get("TWIN_STREAMS") or "free",
        python=platform.python_version(),
        packages={name: _installed(name) or "not installed" for name in PACKAGES},
        made_for=made_for(home),
        devices=tuple(_devices(home)),
    )


def check_settings(home: Path) -> None:
    """Raises RuntimeFault when a TWIN_* or ASCEND_* setting of this process is malformed."""
    library, call = _runtime(home)
    call("aclInit", None)
    call("aclFinalize")


def text(info: Info) -> str:
    lines = [
        "emulated Ascend platform: correctness, not speed",
        f"ascend-twin   {info.version}",
        f"home          {info.home}",
        f"answers as    CANN {info.cann}",
        f"streams       {info.streams}"
        + ("" if info.streams == "strict" else "  (TWIN_STREAMS=strict finds missing waits between them)"),
        f"Python        {info.python}",
    ]
    strange = [name for name, version in info.packages.items() if not fits(version, info.made_for[name])]
    for name, version in info.packages.items():
        lines.append(f"{name:<13} {version}" + (f"  (made for {info.made_for[name]})" if name in strange else ""))
    for device in info.devices:
        lines.append(f"npu:{device.id}         {device.name} (emulated), {device.memory_total >> 20} MiB a process")
    if not info.devices:
        lines.append("no device: TWIN_NPU_COUNT or ASCEND_RT_VISIBLE_DEVICES leaves none")
    if strange:
        lines.append("next: " + "\n      ".join(install(info.made_for)))
    else:
        lines.append("next: python -m ascend_twin selftest\n      python -m ascend_twin run python train.py")
    return "\n".join(lines)


def made_for(home: Path) -> dict[str, str]:
    """The releases whose C++ interfaces the home's libraries are compiled against."""
    told = version_info(home)
    return {name: told.get(name, "unknown") for name in PACKAGES}


def install(wanted: Mapping[str, str]) -> list[str]:
    """The commands that install these releases."""
    return [command.format_map(wanted) for command in INSTALL]


def fits(version: str, wanted: str) -> bool:
    """Whether it is the release that the libraries are made for, of any build (2.6.0+cpu is 2.6.0)."""
    return version.split("+")[0] == wanted


def misfits(wanted: Mapping[str, str]) -> list[str]:
    """What of torch and torch_npu is missing here, or of another version, in words."""
    installed = {name: _installed(name) for name in PACKAGES}
    found = {name: v for name, v in installed.items() if v is None or not fits(v, wanted[name])}
    return [
        f"{name} {wanted[name]} is wanted, " + (f"{v} is" if v else "none is") + " installed"
        for name, v in found.items()
    ]


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _runtime(home: Path) -> tuple[ctypes.CDLL, Callable[..., None]]:
    library = ctypes.CDLL(str(home / "lib64/libascendcl.so"))
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    library.aclrtGetSocName.restype = ctypes.c_char_p

    def call(name: str, *arguments: Any) -> None:
        code = getattr(library, name)(*arguments)
        if code != 0:
            reason = (library.aclGetRecentErrMsg() or b"").decode()
            raise RuntimeFault(reason or f"{name} failed with {code}")

    return library, call


def _devices(home: Path) -> list[Device]:
    library, call = _runtime(home)
    call("aclInit", None)
    count = ctypes.c_uint32()
    call("aclrtGetDeviceCount", ctypes.byref(count))
    devices = []
    for number in range(count.value):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        call("aclrtSetDevice", ctypes.c_int32(number))
        call("aclrtGetMemInfo", ctypes.c_int(HBM), ctypes.byref(free), ctypes.byref(total))
        name = library.aclrtGetSocName().decode()
        devices.append(Device(id=number, name=name, memory_free=free.value, memory_total=total.value))
    call("aclFinalize")
    return devices
