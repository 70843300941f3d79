"""Templates are files that compile as they stand, of an operator named new_operator; rendering renames it."""

from __future__ import annotations

from pathlib import Path

from grstack.new.name import Name

TEMPLATES = Path(__file__).resolve().parent / "templates"
TEMPLATE = Name("new_operator", "NewOperator")


def renamed(text: str, name: Name) -> str:
    return text.replace(TEMPLATE.snake, name.snake).replace(TEMPLATE.camel, name.camel)


def rendered(folder: Path, target: Path, name: Name) -> dict[Path, str]:
    """The files under `folder`, renamed, by their places under `target`."""
    sources = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {
        target / renamed(source.relative_to(folder).as_posix(), name): renamed(source.read_text("utf-8"), name)
        for source in sources
    }
