"""Does the registry of the base image answer? Without one the base is bootstrapped."""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, note, ok

SETTING = "set registry in ~/.config/grstack/network.yaml (HOST or HOST/PATH), and the proxies of the engine itself"


def check(facts: Facts) -> Finding:
    problem = facts.registry_problem("twin")
    if problem is None:
        return ok("the registry of the base image answers")
    return note(f"the base is bootstrapped from the distribution's packages: {problem}", SETTING)
