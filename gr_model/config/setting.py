"""One setting of a config: its default, and what --help, --print-config and the generated page say of it."""

from __future__ import annotations

from dataclasses import field
from typing import Any, TypeVar

T = TypeVar("T")


def setting(default: T, meaning: str, *, choices: tuple[str, ...] = (), path: bool = False) -> T:
    """A field of a config's dataclass. A `path` that a command names is kept as an absolute one."""
    made: Any = field(default=default, metadata={"meaning": meaning, "choices": choices, "path": path})
    return made


def required(meaning: str, *, choices: tuple[str, ...] = ()) -> Any:
    """A field without a default."""
    return field(metadata={"meaning": meaning, "choices": choices, "path": False})
