"""The device of a run: npu, cuda or cpu. torch is imported with the device, so that a wrong name is told at once."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gr_model.common import in_image
from gr_model.common.errors import GrModelError
from gr_model.config import advice as config_advice
from gr_model.config.checks import KINDS

if TYPE_CHECKING:
    import torch


class DeviceError(GrModelError, RuntimeError):
    pass


def split(name: str) -> tuple[str, str]:
    """Kind and index ("" for none) of a device's name; DeviceError for one that there cannot be."""
    kind, _, index = name.partition(":")
    if kind not in KINDS or (index and not index.isdigit()):
        meant = {"gpu": "cuda", "ascend": "npu"}.get(kind, "")
        near = f" (did you mean {meant!r}?)" if meant else config_advice.hint(kind, KINDS)
        hint = near if kind not in KINDS else ""
        raise DeviceError(f"unknown device {name!r}{hint}; valid: {', '.join(KINDS)}, or with an index such as npu:0")
    return kind, index


def open_device(name: str) -> torch.device:
    """`npu`, `npu:1`, `cuda`, `cpu`, ... ; raises DeviceError with what to do when it is not there."""
    kind, index = split(name)
    import torch

    if kind == "npu":
        if not importlib.util.find_spec("torch_npu"):
            raise DeviceError("device npu needs torch_npu, which is not installed; use the npu image")
        try:
            importlib.import_module("torch_npu")
        except Exception as error:  # torch_npu raises a bare Exception when CANN is not where the environment says
            raise DeviceError(f"torch_npu does not load ({error}); are CANN's or the twin's variables set?") from error
    if kind != "cpu":
        count = getattr(torch, kind).device_count()
        if int(index or 0) >= count:
            raise DeviceError(
                f"device {name} is not there: {count} {kind} devices; try {in_image.command('doctor')}, or --device cpu"
            )
    device = torch.device(kind, int(index or 0)) if kind != "cpu" else torch.device("cpu")
    if kind != "cpu":
        getattr(torch, kind).set_device(device)
    keep_freed_memory()
    return device


def describe(device: torch.device) -> str:
    """For logs and reports; says so when the NPU is emulated."""
    import torch

    if device.type == "npu":
        return f"{device} (emulated)" if emulated() else f"{device} ({torch.npu.get_device_name(device)})"
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else "cpu"


def emulated() -> bool:
    """Whether the Ascend runtime of this process is the twin: its libascendcl.so has libtwin_aten.so beside it."""
    with open("/proc/self/maps") as maps:
        runtimes = {line.split()[-1] for line in maps if "libascendcl.so" in line}
    return any((Path(library).parent / "libtwin_aten.so").exists() for library in runtimes)


def seed_everything(seed: int) -> None:
    import torch

    random.seed(seed)
    torch.manual_seed(seed)


def keep_freed_memory() -> None:
    """Makes glibc reuse large freed blocks instead of returning them to the kernel.

    Measured on two virtual cores: a product whose 78 MB result is mapped anew each time takes 117 ms, 19 ms otherwise;
    page faults were most of a training step. Settings of the user (MALLOC_*) win.
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return  # not glibc
    trim_threshold, top_pad, mmap_max = -1, -2, -4
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(top_pad, 64 * 2**20)
