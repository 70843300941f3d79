"""The records of data_faults.h, read from an operator's output `faults`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

HEADER = Path(__file__).resolve().parents[1] / "data_faults.h"
CORES, WORDS = 64, 8


def numbers_of(enum: str) -> dict[str, int]:
    """Of the header's enum, which counts from 1."""
    body = re.search(rf"enum {enum} : int64_t {{(.*?)}};", HEADER.read_text(encoding="utf-8"), re.DOTALL)
    assert body is not None
    names = re.findall(r"^\s*(\w+)(?: = 1)?,", body[1], re.MULTILINE)
    return {name: number for number, name in enumerate(names, start=1)}


OPERATOR, KIND, ARGUMENT = (numbers_of(enum) for enum in ("Operator", "Kind", "Argument"))


def no_faults() -> np.ndarray:
    """As the host clears them."""
    return np.zeros((CORES, WORDS), np.int64)


def told(faults: np.ndarray) -> set[tuple[str, str, int, int, int, int]]:
    """Each core's record: operator, kind, number of the argument, place, value, limit."""
    names = {number: name for name, number in OPERATOR.items()}, {number: name for name, number in KIND.items()}
    found = set()
    for kind, operator, *numbers, _, _ in faults[faults[:, 0] != 0].tolist():
        found.add((names[0][operator], names[1][kind], *numbers))
    assert not faults[faults[:, 0] == 0].any()
    return found
