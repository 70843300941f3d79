"""torch.compile for the parts of a model that are many small operators in a row.

A class names them in COMPILED: methods that take and give tensors alone. What decides by the lengths of a batch (tiles
of attention, jagged operators) and what draws random numbers stays outside, so that one compilation serves every batch:
sizes are symbols in it. On one thread of a CPU it is no faster: benchmarks/results/compile-cpu.md.
"""

from __future__ import annotations

import os
import shutil

import torch
from torch import nn

from gr_model.config import ConfigError


def compile_parts(model: nn.Module, device: torch.device) -> None:
    """Compiles at the first call of each part; ConfigError where there is no compiler for the device."""
    if device.type == "npu":
        raise ConfigError("model.compile: PyTorch 2.6 has no compiler for the npu; valid with cpu and cuda")
    if device.type == "cpu" and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))):
        raise ConfigError(
            "model.compile: no C++ compiler is there for the cpu; install g++, take the devel variant of the image, or"
            " leave it false"
        )
    for module in model.modules():
        for name in getattr(module, "COMPILED", ()):
            setattr(module, name, torch.compile(getattr(module, name), dynamic=True, fullgraph=True))
