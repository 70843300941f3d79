"""What a command of `inv new` will write: files that are not there yet, and lines in files that are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from grstack.errors import UsageError


@dataclass(frozen=True)
class Insertion:
    """One line of an existing file, after its line number `after` (from 1)."""

    file: Path
    after: int
    line: str

    def applied(self) -> str:
        lines = self.file.read_text(encoding="utf-8").splitlines(keepends=True)
        lines.insert(self.after, f"{self.line}\n")
        return "".join(lines)


@dataclass(frozen=True, kw_only=True)
class Plan:
    files: dict[Path, str]
    executable: frozenset[Path] = frozenset()
    insertions: tuple[Insertion, ...] = ()
    next_commands: tuple[str, ...] = field(default=())

    def check(self) -> None:
        """Nothing that exists is written over."""
        there = [str(path) for path in self.files if path.exists()]
        if there:
            raise UsageError(
                f"{len(there)} of the files exist already; the first is {there[0]}", next_command=f"less {there[0]}"
            )

    def write(self) -> None:
        self.check()
        changed = {insertion.file: insertion.applied() for insertion in self.insertions}
        for path, text in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if path in self.executable:
                path.chmod(0o755)
        for path, text in changed.items():
            path.write_text(text, encoding="utf-8")
