"""Are there NPUs, and a driver that serves them? None of it is needed to build, or on platform twin."""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, note, ok, warning


def check(facts: Facts) -> Finding:
    state = facts.npu()
    count = len(state.devices)
    npus = "1 NPU" if count == 1 else f"{count} NPUs"
    if not count and state.driver is None:
        return note("no NPU and no driver: platform twin emulates them", "for a real NPU, install Huawei's driver")
    if not count:
        return warning(
            f"driver {state.driver}, but no /dev/davinci*",
            "npu-smi info; in a container, pass the devices (--device /dev/davinci0) or use Ascend Docker Runtime",
        )
    if state.driver is None:
        return warning(
            f"{npus}, but no driver at /usr/local/Ascend/driver",
            "install Huawei's driver; in a container, mount /usr/local/Ascend/driver",
        )
    if state.tool is None:
        return warning(f"{npus}, driver {state.driver}, but no npu-smi", "mount or install npu-smi")
    return ok(f"{npus}, driver {state.driver}")
