"""The registry: a new check is a file here with a function `check(facts) -> Finding`, and a line below."""

from __future__ import annotations

from collections.abc import Callable

from grstack.doctor.checks import (
    arch,
    cann,
    cann_registry,
    disk,
    engine,
    gpu_driver,
    memory,
    network,
    npu_driver,
    operators,
    python,
    registry,
    torch_index,
)
from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding

Check = Callable[[Facts], Finding]

CHECKS: dict[str, Check] = {
    "engine": engine.check,
    "disk": disk.check,
    "memory": memory.check,
    "architecture": arch.check,
    "python": python.check,
    "NPU driver": npu_driver.check,
    "GPU driver": gpu_driver.check,
    "CANN": cann.check,
    "operators": operators.check,
    "network": network.check,
    "PyTorch index": torch_index.check,
    "registry": registry.check,
    "registry of CANN": cann_registry.check,
}
