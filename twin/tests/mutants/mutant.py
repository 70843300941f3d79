"""What a mutant is: a real operator with one fault, made by replacing text of its sources."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from workshop import OPERATORS, Operator

COMPARISON = "comparison"  # a logic error that no hardware would refuse: only the result shows it
COMPILER = "compiler"
TIMEOUT = "watchdog"


@dataclass(frozen=True)
class Edit:
    file: str  # below kernels/operators
    old: str  # stands there exactly once
    new: str


@dataclass(frozen=True)
class Mutant:
    name: str
    fault: str
    operator: Operator
    edits: tuple[Edit, ...]
    found_by: str  # rule of table E, "host" (the call is refused), or one of the above
    message: str  # part of what is printed

    @property
    def host_changes(self) -> bool:
        return any("op_host" in e.file or e.file.endswith(("_host.h", "_launch.h", "_tiling.h")) for e in self.edits)

    def write(self, tree: Path) -> Path:
        """A copy of the operator and the shared sources with the edits applied."""
        for folder in (f"{self.operator.home}/op_host", f"{self.operator.home}/op_kernel", "common"):
            shutil.copytree(OPERATORS / folder, tree / folder, ignore=shutil.ignore_patterns("tests"))
        for edit in self.edits:
            file = tree / edit.file
            text = file.read_text()
            assert text.count(edit.old) == 1, (
                f"{self.name}: {edit.file} holds the old text {text.count(edit.old)} times"
            )
            file.write_text(text.replace(edit.old, edit.new))
        return tree
