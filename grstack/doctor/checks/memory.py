"""Is there memory for two compilers and for training?"""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, error, ok, warning
from grstack.needs import GIB, MEMORY_COMFORTABLE, MEMORY_NEEDED


def check(facts: Facts) -> Finding:
    message = f"{facts.memory / GIB:.1f} GiB of memory"
    remedy = "use a larger machine, or raise the container's or virtual machine's memory limit"
    if facts.memory < MEMORY_NEEDED:
        return error(f"{message}, a build needs {MEMORY_NEEDED / GIB:.0f} GiB", remedy)
    if facts.memory < MEMORY_COMFORTABLE:
        return warning(f"{message}, training on two emulated NPUs needs {MEMORY_COMFORTABLE / GIB:.0f} GiB", remedy)
    return ok(message)
