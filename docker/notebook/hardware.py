"""What this container computes on, and whether the host's driver goes with the image's libraries: a line or two."""

import ctypes
import glob
import json
import re
from pathlib import Path

MANIFEST = Path("/opt/grstack/manifest.json")
PACKAGES = "/opt/grstack/venv/lib/python3*/site-packages/nvidia_cuda_runtime_cu*.dist-info"
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


def lines() -> list[str]:
    manifest = json.loads(MANIFEST.read_text())
    if manifest["target"] == "cuda":
        return gpus(driver(), runtime())
    if manifest["target"] == "npu" and manifest["emulated"]:
        return ["device: npu, emulated on this CPU (correctness, not speed)"]
    if manifest["target"] == "npu":
        return npus([path for path in glob.glob("/dev/davinci*") if re.search(r"\d$", path)])
    return ["device: cpu"]


def npus(nodes: list[str]) -> list[str]:
    if nodes:
        return [f"device: {len(nodes)} NPU{'s' if len(nodes) > 1 else ''}"]
    return ["device: none: this container was given no NPU", "  next:  inv notebook --platform cann --devices all"]


def runtime() -> tuple[int, int]:
    """CUDA's release that the image's libraries are of."""
    for found in glob.glob(PACKAGES):
        if match := re.search(r"-(\d+)\.(\d+)", found):
            return int(match[1]), int(match[2])
    return 0, 0


def driver() -> "tuple[int, int, int] | None":
    """(the release of CUDA that the driver is for, as 1000 * major + 10 * minor; number of GPUs; what cuInit says)."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version, count = ctypes.c_int(), ctypes.c_int()
    status = library.cuInit(0)
    library.cuDriverGetVersion(ctypes.byref(version))
    if status == 0:
        library.cuDeviceGetCount(ctypes.byref(count))
    return version.value, count.value, status


def gpus(found: "tuple[int, int, int] | None", needs: tuple[int, int]) -> list[str]:
    if found is None:
        return [
            "device: cpu: this container was given no GPU",
            "  next:  inv notebook --target cuda --devices all, or docker run --gpus all ...",
        ]
    version, count, status = found
    has = version // 1000, version % 1000 // 10
    if status == NO_DEVICE or (status == 0 and not count):
        return ["device: cpu: the driver is there and shows no GPU", "  next:  nvidia-smi, on the host"]
    if status:
        return [f"device: cpu: the driver does not start (cuInit says {status})", "  next:  nvidia-smi, on the host"]
    said = f"device: {count} GPU{'s' if count > 1 else ''}, driver for CUDA {has[0]}.{has[1]}"
    if has[0] < needs[0]:
        return [
            f"{said}: too old for this image's CUDA {needs[0]}.{needs[1]}, PyTorch will not use it",
            f"  next:  install a driver for CUDA {needs[0]} or later on the host",
        ]
    if has < needs:
        return [f"{said}; works with this image's CUDA {needs[0]}.{needs[1]} (same major release)"]
    return [said]
