"""All checks, in the order in which they run. To add one: a file in checks/, and a line here."""

from __future__ import annotations

from smoke_tests.check import Check
from smoke_tests.checks import collectives, elf, kernels, losses, operators, quality, resume, traps, versions

NPU = ("npu",)
CHECKS = (
    Check("versions", "the image holds the locked packages and no others", versions.run),
    Check("elf", "every library that a shared object needs is found", elf.run),
    Check(
        "traps", "torch imports with and without autoload, one fbgemm_gpu, torchrec shards onto the device", traps.run
    ),
    Check("operators", "the operators are found under their vendors and equal the NumPy reference", operators.run, NPU),
    Check("kernels", "gr_ops' kernels equal the NumPy reference", kernels.run, ("cpu", "cuda")),
    Check("losses", "the losses of 50 steps agree with the CPU's to 1e-5", losses.run, ("npu", "cuda"), 1200.0, True),
    Check("quality", "retrieval reaches 2.5 times the popularity baseline's HR@10", quality.run, time_limit=1200.0),
    Check("resume", "save, load, continue gives the same losses", resume.run),
    Check("collectives", "two processes: all_reduce and DistributedDataParallel", collectives.run),
)
