"""Runs the checks at once; one that hangs or breaks becomes a finding and holds nobody up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import replace

from grstack.doctor.checks import Check
from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, error, warning
from grstack.errors import GrstackError

LIMIT = 4.5  # seconds; a doctor that takes longer is not asked


def examine(facts: Facts, checks: Mapping[str, Check], limit: float = LIMIT) -> list[Finding]:
    """The findings in the order of `checks`."""
    results: queue.SimpleQueue[tuple[str, Finding]] = queue.SimpleQueue()

    def run(name: str, check: Check) -> None:
        results.put((name, _guarded(facts, check)))

    # Daemon threads: a pool would wait at exit for a check that hangs in a system call.
    for name, check in checks.items():
        threading.Thread(target=run, args=(name, check), name=f"doctor {name}", daemon=True).start()
    found: dict[str, Finding] = {}
    deadline = time.monotonic() + limit
    while len(found) < len(checks):
        try:
            name, finding = results.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[name] = finding
    late = warning(f"no answer within {limit:.1f} s", "run inv doctor again; if it stays so, this part hangs")
    return [replace(found.get(name, late), check=name) for name in checks]


def _guarded(facts: Facts, check: Check) -> Finding:
    try:
        return check(facts)
    except GrstackError as problem:
        where = f" ({problem.where})" if problem.where else ""
        return error(f"{problem.what}{where}", problem.next_command or "mend what the message names")
    except Exception as problem:
        message = f"the check broke: {type(problem).__name__}: {problem}"
        return error(message, "report this with the output of inv doctor --json")
