"""Does a container registry answer? Without one the base is bootstrapped; platform cann has no such way."""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, note, ok


def check(facts: Facts) -> Finding:
    problem = facts.registry_problem()
    if problem is None:
        return ok("the registry of the base image answers")
    return note(
        f"the base is bootstrapped from the distribution's packages, platform cann cannot be built: {problem}",
        "set registry in ~/.config/grstack/network.yaml (HOST or HOST/PATH), and the proxies of the engine itself",
    )
