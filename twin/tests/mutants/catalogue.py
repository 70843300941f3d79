"""All mutants; `python twin/tests/mutants/catalogue.py > docs/generated/mutants.md` writes their table."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "launcher"), str(TESTS.parents[1] / "kernels/operators/common/tests")]

from bounds_mutants import MUTANTS as BOUNDS_MUTANTS  # noqa: E402
from cumsum_mutants import MUTANTS as CUMSUM_MUTANTS  # noqa: E402
from embedding_mutants import MUTANTS as EMBEDDING_MUTANTS  # noqa: E402
from hstu_mutants import MUTANTS as HSTU_MUTANTS  # noqa: E402
from hstu_relative_mutants import MUTANTS as RELATIVE_MUTANTS  # noqa: E402
from jagged_mutants import MUTANTS as JAGGED_MUTANTS  # noqa: E402
from layer_mutants import MUTANTS as LAYER_MUTANTS  # noqa: E402
from mutant import COMPARISON, COMPILER, TIMEOUT  # noqa: E402
from permute_mutants import MUTANTS as PERMUTE_MUTANTS  # noqa: E402
from rank1_mutants import MUTANTS as RANK1_MUTANTS  # noqa: E402

MUTANTS = [
    *CUMSUM_MUTANTS,
    *JAGGED_MUTANTS,
    *PERMUTE_MUTANTS,
    *RANK1_MUTANTS,
    *BOUNDS_MUTANTS,
    *EMBEDDING_MUTANTS,
    *HSTU_MUTANTS,
    *RELATIVE_MUTANTS,
    *LAYER_MUTANTS,
]
TABLE = TESTS.parents[1] / "docs/generated/mutants.md"
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
            " (`twin/tests/mutants`), compiled and run on the twin: a third of them, drawn anew, in each run of the"
            " gate, all of them in a slow test (benchmarks/results/slow-tests.md). Every one is caught:"
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
