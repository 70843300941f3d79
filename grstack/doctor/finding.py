"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """ok: as it should be. note: fine, worth knowing. warning: some commands will not work. error: most will not."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Finding:
    severity: Severity
    message: str
    remedy: str = ""
    check: str = ""  # filled in by the doctor


def ok(message: str) -> Finding:
    return Finding(severity=Severity.OK, message=message)


def note(message: str, remedy: str = "") -> Finding:
    return Finding(severity=Severity.NOTE, message=message, remedy=remedy)


def warning(message: str, remedy: str) -> Finding:
    return Finding(severity=Severity.WARNING, message=message, remedy=remedy)


def error(message: str, remedy: str) -> Finding:
    return Finding(severity=Severity.ERROR, message=message, remedy=remedy)
