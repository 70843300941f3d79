"""benchmarks/README.md, the index from a claim to its script and result: complete, and nothing in it is missing."""

from __future__ import annotations

import re
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PAGE = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| claim")]


def spans(text: str) -> list[str]:
    return [name for span in re.findall(r"`([^`]+)`", text) for name in expanded(span)]


def expanded(name: str) -> list[str]:
    if not (group := re.search(r"\{([^{}]*)\}", name)):
        return [name]
    return [full for choice in group[1].split(",") for full in expanded(name.replace(group[0], choice, 1))]


def test_a_row_has_a_claim_a_script_and_a_result() -> None:
    assert len(ROWS) > 20
    assert [row for row in ROWS if len(row) != 3] == []
    without = [row for row in ROWS if not any(name.startswith("results/") for name in spans(row[2]))]
    assert [(spans(row[1]), row[2]) for row in without] == [(["operators_device.py", "device_cases/"], "none yet |")], (
        without
    )


def test_every_script_is_listed() -> None:
    modules = {path.name for path in BENCHMARKS.glob("*.py")}
    packages = {f"{path.parent.name}/" for path in BENCHMARKS.glob("*/__init__.py")}
    listed = {word for row in ROWS for span in spans(row[1]) for word in span.split()}
    assert modules and packages
    assert sorted((modules | packages) - listed) == []


def test_every_result_is_listed_and_every_listed_one_is_there() -> None:
    there = {f"results/{path.name}" for path in (BENCHMARKS / "results").iterdir()}
    listed = [name for row in ROWS for name in spans(row[2])]
    assert sorted(set(listed)) == sorted(there)


def test_every_listed_script_is_there() -> None:
    root = BENCHMARKS.parent
    names = [span.split()[0] for row in ROWS for span in spans(row[1])]
    assert [name for name in names if not (BENCHMARKS / name).exists() and not (root / name).exists()] == []
