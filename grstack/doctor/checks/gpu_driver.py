"""Are there NVIDIA GPUs, a driver that target cuda can use, and what hands GPUs to containers?"""

from __future__ import annotations

from grstack.doctor.checks.accelerators import all_well
from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, note, warning
from grstack.launch import drivers, gpu


def check(facts: Facts) -> Finding:
    seen = facts.gpu()
    if not seen.tool:
        return note("no nvidia-smi: no NVIDIA GPU, or no driver", "for a GPU, install NVIDIA's driver")
    if not seen.devices and not seen.problem:
        return warning(f"driver {seen.driver or 'unknown'}, but no GPU", "nvidia-smi; lspci -d 10de:")
    if seen.devices and not seen.helper:
        return warning(
            f"{seen.names()}, driver {seen.driver}, but neither NVIDIA Container Toolkit nor a CDI description",
            gpu.INSTALL,
        )
    cuda = facts.versions.targets.get("cuda")
    return all_well(seen, drivers.GPU.get(cuda.packages["torch"]) if cuda else None)
