"""Finds and loads the two shared libraries of the package."""

import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from pathlib import Path

import torch

COMMON_LIBRARY = "libgr_ops.so"
NPU_LIBRARY = "libfbgemm_npu_api.so"
BUILD_COMMAND = "python -m pip install --no-deps --no-build-isolation kernels/gr_ops"


def library_directory() -> Path:
    """Where the shared libraries are: GR_OPS_LIBRARY_DIR (a CMake build folder), else beside this file."""
    chosen = os.environ.get("GR_OPS_LIBRARY_DIR")
    return Path(chosen) if chosen else Path(__file__).resolve().parent


def npu_wanted() -> bool:
    """True if torch_npu is imported, or is installed and PyTorch would load it by itself."""
    if "torch_npu" in sys.modules:
        return True
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "0":
        return False
    return importlib.util.find_spec("torch_npu") is not None


def npu_loaded() -> bool:
    """True if the kernels for NPU tensors are registered."""
    return torch._C._dispatch_has_kernel_for_dispatch_key("mxrec::jagged_to_padded_dense", "PrivateUse1")


def load() -> None:
    """Load the libraries, once. Called on import; call it again after a later ``import torch_npu``."""
    # fbgemm_gpu refuses to load when its schemas exist already; ours are defined only where absent. So it goes first.
    if importlib.util.find_spec("fbgemm_gpu") is not None:
        importlib.import_module("fbgemm_gpu")
    _load(COMMON_LIBRARY, "torch")
    importlib.import_module("gr_ops.fake")
    importlib.import_module("gr_ops.cuda.operators")
    if npu_wanted():
        importlib.import_module("torch_npu")
        _load(NPU_LIBRARY, "torch_npu")
        importlib.import_module("gr_ops.fbgemm").register()
        importlib.import_module("gr_ops.faults").raise_at_synchronize()


def _load(name: str, needs: str) -> None:
    path = library_directory() / name
    if not path.is_file():
        raise ImportError(f"{path} is missing; build it with: {BUILD_COMMAND}")
    _check_built_for(path, needs)
    torch.ops.load_library(str(path))


def _check_built_for(library: Path, package: str) -> None:
    """Of another release of its package a library may end the process while it is loaded."""
    record = library.with_name("built_with.json")
    if not record.is_file():  # a CMake build folder
        return
    built = json.loads(record.read_text(encoding="utf-8"))[package]
    here = importlib.metadata.version(package)
    if here.split(".")[:2] != built.split(".")[:2]:
        raise ImportError(f"{library} was built for {package} {built}, here is {here}; build it with: {BUILD_COMMAND}")
