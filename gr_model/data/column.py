"""A column that a data set wants of a delimited text file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Column:
    """`low` and `high` bound a number, both included; a text must not be empty."""

    name: str
    kind: Literal["int", "float", "text"] = "int"
    low: float = -float("inf")
    high: float = float("inf")
