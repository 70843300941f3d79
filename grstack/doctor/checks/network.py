"""Does the configured package index answer?"""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, error, ok, warning

_REMEDY = (
    "set PIP_INDEX_URL (and, where they apply, HTTPS_PROXY and PIP_CERT), "
    "or write them to ~/.config/grstack/network.yaml"
)


def check(facts: Facts) -> Finding:
    problem = facts.index_problem()
    if problem is None:
        return ok("the package index answers")
    message = f"the package index does not answer: {problem}"
    if facts.cached_wheels:
        return warning(f"{message}; {facts.cached_wheels} wheels are cached", _REMEDY)
    return error(message, _REMEDY)
