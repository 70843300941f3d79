"""Is there a container engine, and a client that can build with BuildKit?"""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, error, note, ok, warning


def check(facts: Facts) -> Finding:
    state = facts.engine()
    if state.version is None and state.host:
        message = f"no container engine answers at {state.host}, which {state.chosen_by} names"
        return error(message, f"{state.undo}, or start that engine, or use --engine none")
    if state.version is None and state.closed:
        return warning("Docker runs, and its socket is not open to you", state.remedy)
    if state.version is None and state.can_install:
        return note("no engine answers; the first build installs and starts one", "or use --engine none")
    if state.version is None:
        start = f"sudo systemctl start docker (to install: {state.remedy})"
        return warning("no container engine answers", f"{start}, or use --engine none")
    if state.problem and state.can_install:
        return note(f"{state.problem}; the first build installs one", state.remedy)
    if state.problem:
        return warning(state.problem, state.remedy)
    where = f", by {state.chosen_by}" if state.chosen_by else ""
    return ok(f"Docker {state.version}{', rootless' if state.rootless else ''}{where}")
