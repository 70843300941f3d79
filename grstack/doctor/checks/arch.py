"""Is this processor one that versions.yaml has wheels for?"""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, error, ok


def check(facts: Facts) -> Finding:
    known = facts.versions.architectures
    if facts.arch in known:
        return ok(facts.arch)
    return error(f"no wheels are locked for {facts.arch}", f"use a machine with {' or '.join(known)}")
