"""`import new_operator` makes torch.ops.custom.new_operator: on CPU and NPU tensors."""

import os
from pathlib import Path

import torch
import torch_npu  # noqa: F401  the binding is linked to its library

BUILD = Path(__file__).resolve().parents[1] / "build"
VENDOR = BUILD / "packages/vendors/custom_new_operator"
LIBRARY = BUILD / "binding/libnew_operator.so"


def load() -> None:
    """The binding reads ASCEND_CUSTOM_OPP_PATH at its first call on an NPU tensor."""
    if not LIBRARY.is_file():
        raise ImportError(f"{LIBRARY} is missing; build it with: python -m ascend_twin run ./build.sh")
    others = [path for path in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if path]
    os.environ["ASCEND_CUSTOM_OPP_PATH"] = ":".join(dict.fromkeys([str(VENDOR), *others]))
    torch.ops.load_library(str(LIBRARY))


load()
