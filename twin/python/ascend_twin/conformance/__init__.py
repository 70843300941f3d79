"""Conformance of the emulated NPU: PyTorch's own operator samples on `npu`, against PyTorch on the CPU.

python -m ascend_twin selftest [--full] [--ops NAME ...] [--dtypes NAME ...] [--output DIR] [--docs DIR]
(`python -m ascend_twin.conformance` is the same run in a process whose library path is set already.)
"""

from .command import main

__all__ = ["main"]
