"""All mutants, and the table of docs/mutants.md: python twin/tests/mutants/catalogue.py > docs/mutants.md"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "launcher"))

from cumsum_mutants import MUTANTS as CUMSUM_MUTANTS  # noqa: E402
from jagged_mutants import MUTANTS as JAGGED_MUTANTS  # noqa: E402
from mutant import COMPARISON, COMPILER, TIMEOUT  # noqa: E402

MUTANTS = [*CUMSUM_MUTANTS, *JAGGED_MUTANTS]
TABLE = HERE.parents[2] / "docs/mutants.md"
EXPLAINED = {
    COMPARISON: "the result differs from numpy's",
    COMPILER: "the kernel does not compile",
    TIMEOUT: "the watchdog (`TWIN_KERNEL_TIMEOUT`)",
    "host": "the host side: the call is refused",
}


def table() -> str:
    counts = Counter(m.found_by if m.found_by in EXPLAINED else "rules" for m in MUTANTS)
    others = ", ".join(f"{counts[kind]} by {text}" for kind, text in EXPLAINED.items())
    rows = [
        f"| {m.name} | {m.fault} | {EXPLAINED.get(m.found_by, m.found_by)} | `{m.message}` |"
        for m in sorted(MUTANTS, key=lambda m: m.name)
    ]
    return "\n".join(
        [
            "# Mutants of the real operators",
            "",
            f"{len(MUTANTS)} broken versions of the operators, each a small edit of the real sources"
            " (`twin/tests/mutants`), compiled and run on the twin. Every one is caught:"
            f" {counts['rules']} by a rule of the simulated core (twin-checks.md), {others}.",
            "",
            "| mutant | fault | caught by | part of the message |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(table())
