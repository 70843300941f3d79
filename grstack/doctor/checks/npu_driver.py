"""Are there NPUs, and a driver that serves them? None of it is needed to build, or on platform twin."""

from __future__ import annotations

from grstack.doctor.checks.accelerators import all_well
from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, note, warning
from grstack.launch import drivers


def check(facts: Facts) -> Finding:
    seen = facts.npu()
    if not seen.devices and not seen.driver:
        return note("no NPU and no driver: platform twin emulates them", "for a real NPU, install Huawei's driver")
    if not seen.devices:
        return warning(
            f"driver {seen.driver}, but no /dev/davinci*",
            "npu-smi info; in a container, pass the devices (--device /dev/davinci0) or use Ascend Docker Runtime",
        )
    if not seen.driver:
        return warning(
            f"{seen.names()}, but no driver at /usr/local/Ascend/driver",
            "install Huawei's driver; in a container, mount /usr/local/Ascend/driver",
        )
    if not seen.tool:
        return warning(f"{seen.names()}, driver {seen.driver}, but no npu-smi", "mount or install npu-smi")
    platforms = facts.versions.targets["npu"].platforms
    needs = drivers.NPU.get(platforms["cann"].cann) if "cann" in platforms else None
    return all_well(seen, needs)
