"""Conformance of the emulated NPU: PyTorch's own operator samples on `npu`, against PyTorch on the CPU.

python -m ascend_twin.conformance [--full] [--ops NAME ...] [--dtypes NAME ...] [--output DIR] [--docs DIR]
"""

from .command import main

__all__ = ["main"]
