"""PEP 517 backend of this package; what packages share is in recipes/wheels.

Where torch_npu is not installed, the wheel has no library for NPU tensors.
"""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT.parents[1] / "recipes/wheels"))

from native_wheel import NativeWheel  # noqa: E402

COMMON = NativeWheel(
    root=ROOT,
    package="gr_ops",
    modules=("gr_ops_autoload.py", "gr_ops_autoload.pth"),
    libraries=("libgr_ops.so",),
    directories={"TORCH_DIR": "torch"},
    entry_points={"torch.backends": {"gr_ops": "gr_ops_autoload:register"}},
    built_with=("torch",),
)
NPU = replace(
    COMMON,
    libraries=(*COMMON.libraries, "libfbgemm_npu_api.so"),
    beside={"libfbgemm_npu_api.so": "beside/libfbgemm_npu_api.so"},
    directories={**COMMON.directories, "TORCH_NPU_DIR": "torch_npu"},
    built_with=(*COMMON.built_with, "torch_npu"),
)
WHEEL = COMMON if importlib.util.find_spec("torch_npu") is None else NPU


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel into wheel_directory and return its file name."""
    return WHEEL.build(wheel_directory)
