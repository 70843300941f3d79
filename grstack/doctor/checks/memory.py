"""Is there memory for two compilers and for training?"""

from __future__ import annotations

from grstack.doctor.facts import GIB, Facts
from grstack.doctor.finding import Finding, error, ok, warning

NEEDED = 4 * GIB  # two compilers that include torch's headers
COMFORTABLE = 8 * GIB  # and a training process per emulated NPU


def check(facts: Facts) -> Finding:
    message = f"{facts.memory / GIB:.1f} GiB of memory"
    remedy = "use a larger machine, or raise the container's or virtual machine's memory limit"
    if facts.memory < NEEDED:
        return error(f"{message}, a build needs {NEEDED / GIB:.0f} GiB", remedy)
    if facts.memory < COMFORTABLE:
        return warning(f"{message}, training on two emulated NPUs needs {COMFORTABLE / GIB:.0f} GiB", remedy)
    return ok(message)
