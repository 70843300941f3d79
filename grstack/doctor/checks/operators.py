"""Which operator packages would a program on this machine use, and is each the only one for its operators?"""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, note, ok, warning


def check(facts: Facts) -> Finding:
    state = facts.opp()
    if state is None:
        return note("no opp directory is named here: images bring their operators", "inv opp list looks into the image")
    if state.faults:
        return warning(f"{state.place}: {'; '.join(state.faults)}", "inv opp verify")
    if not state.vendors:
        return note(f"no operator package in {state.place}", f"inv install-ops --into '{state.place}'")
    return ok(f"{state.vendors} operator packages in {state.place}")
