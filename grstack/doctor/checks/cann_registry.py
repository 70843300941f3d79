"""Does the registry of CANN's base image, another one than Debian's, answer? Platform cann has no base but that."""

from __future__ import annotations

from grstack.doctor.checks.registry import SETTING
from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, note, ok


def check(facts: Facts) -> Finding:
    problem = facts.registry_problem("cann")
    if problem is None:
        return ok("the registry of CANN's base image answers")
    return note(f"platform cann cannot be built: {problem}", SETTING)
