"""The report of many kills, made in pieces of some minutes each, in any order and any number of times."""

from __future__ import annotations

import json
import os
from pathlib import Path

VARIABLE = "CHECKPOINT_KILLS_REPORT"  # names the file, for each program of kills another one
PIECE = 50  # seeds


def add(whole: dict[str, int], results: list[dict[str, int]]) -> None:
    """Puts a piece in the place of that with the same first seed, where the environment asks for a report."""
    if not (name := os.environ.get(VARIABLE)):
        return
    path = Path(name)
    pieces = json.loads(path.read_text())["pieces"] if path.exists() else {}
    pieces[str(results[0]["seed"])] = summary(whole, results)
    pieces = dict(sorted(pieces.items(), key=lambda piece: int(piece[0])))
    path.write_text(json.dumps({"all": total(list(pieces.values())), "pieces": pieces}, indent=1) + "\n")


def summary(whole: dict[str, int], results: list[dict[str, int]]) -> dict[str, object]:
    """Every line stands for a kill whose remains were found whole: a row lost or mixed up ends the program."""
    return {
        "kills whose remains were whole": len(results),
        "first seed": results[0]["seed"],
        "last seed": results[-1]["seed"],
        "kills at calls of the system": sum(result["point"] > 0 for result in results),
        "kills at calls of functions": sum(result["call"] > 0 for result in results),
        "calls of the system in an unharmed run": whole["points"],
        "calls of functions in an unharmed run": whole["calls"],
        "kills that left an unfinished save": sum(result["torn"] > 0 for result in results),
        "kills by the last step that was committed": {
            str(step): sum(result["saved"] == step for result in results) for step in range(10)
        },
    }


def total(pieces: list[dict[str, object]]) -> dict[str, object]:
    by_step = [piece["kills by the last step that was committed"] for piece in pieces]
    names = (
        "kills whose remains were whole",
        "kills at calls of the system",
        "kills at calls of functions",
        "kills that left an unfinished save",
    )
    sums = {name: sum(piece[name] for piece in pieces) for name in names}
    return sums | {
        "kills by the last step that was committed": {
            step: sum(counts[step] for counts in by_step) for step in by_step[0]
        }
    }
