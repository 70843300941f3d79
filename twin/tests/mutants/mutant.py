"""What a mutant is: a real operator with one fault, made by replacing text of its sources."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from workshop import OPERATORS, Operator

COMPARISON = "comparison"  # a logic error that no hardware would refuse: only the result shows it
COMPILER = "compiler"
TIMEOUT = "watchdog"
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Edit:
    file: str  # below kernels/operators
    old: str  # stands there exactly once, whatever the white space between its words and signs
    new: str

    def apply(self, text: str) -> str:
        """ValueError unless `old` stands in the text just once."""
        parts = re.findall(r"\w+|[^\w\s]", self.old)
        gaps = (
            r"\s+" if a[-1].isalnum() and b[0].isalnum() else r"\s*" for a, b in zip(parts, parts[1:], strict=False)
        )
        pattern = "".join(re.escape(part) + gap for part, gap in zip(parts, [*gaps, ""], strict=True))
        found = list(re.finditer(pattern, text))
        if len(found) != 1:
            raise ValueError(f"{self.file} holds the old text {len(found)} times:\n{self.old}")
        return text[: found[0].start()] + self.new + text[found[0].end() :]


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
            file.write_text(edit.apply(file.read_text()))
        return tree
