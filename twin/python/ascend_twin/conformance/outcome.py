"""What came out of one sample."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """`tested`: the checks that the CPU passes. `failed`: (check, error) of those that the NPU does not.
    `shapes_only`: the values are random or uninitialised, so only shapes, data types and devices were compared."""

    tested: tuple[str, ...]
    failed: tuple[tuple[str, str], ...] = ()
    shapes_only: bool = False
