"""Where CANN, or the twin in its place, stands, and the variables that its users set."""

from __future__ import annotations

TOOLKIT = "/usr/local/Ascend/ascend-toolkit"
HOME = f"{TOOLKIT}/latest"
LATER_HOME = "/usr/local/Ascend/cann"  # from CANN 8.5 on
SET_ENV = f"source {TOOLKIT}/set_env.sh"
DRIVER = "/usr/local/Ascend/driver"
DRIVER_LIBRARIES = (f"{DRIVER}/lib64/common", f"{DRIVER}/lib64/driver")  # as docker/npu/Dockerfile has them
CUSTOM = "ASCEND_CUSTOM_OPP_PATH"  # directories of vendors outside of the toolkit


def variables(home: str) -> dict[str, str]:
    """What set_env.sh of a toolkit at `home` sets, but for the search paths."""
    return {"ASCEND_HOME_PATH": home, "ASCEND_TOOLKIT_HOME": home, "ASCEND_OPP_PATH": f"{home}/opp"}


def binaries(home: str) -> tuple[str, ...]:
    return (f"{home}/bin", f"{home}/tools/profiler/bin")
