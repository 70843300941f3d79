"""Errors of the toolchain: one class, one exit code.

    GrstackError (1)
    ├── UsageError (2)              a name on the command line that does not exist; lists the valid ones
    ├── SpecError (3)               versions.yaml: every fault at once, each with its line
    ├── LockError (4)               a lock is missing, stale or cannot be resolved
    │   └── UnsupportedError (5)    a (target, python, arch) that cannot exist, with the reason
    ├── NetworkError (6)            an index, registry or mirror cannot be reached
    ├── HashMismatch (7)            a downloaded file is not the locked one; nothing of it is kept
    ├── DataError (8)               a malformed data file: file, line, reason
    ├── EngineError (9)             no container engine, or it refused
    ├── StepError (10)              a step of a plan failed
    ├── DiskFull (12)               not enough room to go on
    ├── Busy (13)                   another build holds the lock
    ├── PackageError (14)           an operator package cannot be installed or removed, or is not sound
    ├── DeviceError (15)            an NPU or GPU is not there, is busy, or its driver is too old
    └── Interrupted (130)           SIGINT; finished steps are kept, the next run continues

Every error says what went wrong, where, and the next command to type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class GrstackError(Exception):
    """Base of all errors that are shown to the user without a traceback."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str = "", next_command: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_command = next_command

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.next_command:
            lines.append(f"  next:  {self.next_command}")
        return "\n".join(lines)


class UsageError(GrstackError):
    exit_code = 2

    @classmethod
    def unknown(cls, kind: str, given: str, valid: Iterable[str], *, next_command: str = "") -> UsageError:
        """The error for a name that is not in a closed list, for example an unknown target."""
        return cls(f"unknown {kind} '{given}'; valid: {', '.join(sorted(valid))}", next_command=next_command)


class SpecError(GrstackError):
    exit_code = 3


class LockError(GrstackError):
    exit_code = 4


class UnsupportedError(LockError):
    exit_code = 5


class NetworkError(GrstackError):
    exit_code = 6


class HashMismatch(GrstackError):
    exit_code = 7


class DataError(GrstackError):
    exit_code = 8


class EngineError(GrstackError):
    exit_code = 9


class StepError(GrstackError):
    exit_code = 10


class DiskFull(GrstackError):
    exit_code = 12


class Busy(GrstackError):
    exit_code = 13


class PackageError(GrstackError):
    exit_code = 14


class DeviceError(GrstackError):
    exit_code = 15


class Interrupted(GrstackError):
    exit_code = 130
