"""Is there a container engine, and a client that can build with BuildKit?"""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, note, ok, warning

_START = "sudo systemctl start docker (to install: sudo apt-get install -y docker.io), or use --engine none"


def check(facts: Facts) -> Finding:
    state = facts.engine()
    if state.version is None and state.can_install:
        return note("no engine answers; the first build installs and starts one", "or use --engine none")
    if state.version is None:
        return warning("no container engine answers", _START)
    if state.problem:
        return warning(state.problem, "sudo apt-get install -y docker.io, or your distribution's docker-buildx")
    return ok(f"Docker {state.version}")
