"""Cases of operators, a file each: `comparisons(device)` as in jagged_cases.py. `inv new operator` writes one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from smoke_tests.checks.jagged_cases import Comparison


def comparisons(device: Any) -> Iterator[Comparison]:
    for file in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        yield from importlib.import_module(f"{__name__}.{file.stem}").comparisons(device)
