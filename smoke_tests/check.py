"""What a check is given and what it hands back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class CheckFailed(Exception):
    """The check ran and what it looks at does not hold; `details` are the single findings."""

    def __init__(self, message: str, details: list[str] | None = None) -> None:
        super().__init__(message)
        self.details = details or []


class CheckSkipped(Exception):
    """This machine lacks what the check needs; the text says what."""


@dataclass(frozen=True)
class Context:
    data_dir: Path
    scratch: Path  # where the results of checks lie
    lock: dict[str, Any]
    manifest: dict[str, Any]  # of the image: target, platform, operators, files of each component

    @property
    def kind(self) -> str:
        """Of the device that the checks use: an image for GPUs does without one, on its CPU."""
        target: str = self.manifest["target"]
        return "cpu" if target == "cuda" and not gpu_is_here() else target

    @property
    def device(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:0"

    def reason_to_skip(self, check: Check) -> str:
        """Why a check cannot be run on this machine; empty where it can."""
        return "no GPU" if check.needs_device and self.kind != self.manifest["target"] else ""


@dataclass(frozen=True)
class Curve:
    name: str
    points: list[list[float]]
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    title: str
    curves: list[Curve]
    caption: str = ""


@dataclass(frozen=True)
class Outcome:
    """A check that holds. `figures` are numbers by name; everything can be written as JSON."""

    summary: str
    details: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    charts: list[Chart] = field(default_factory=list)
    skipped: bool = False  # nothing was looked at: the summary says what this machine lacks


@dataclass(frozen=True)
class Check:
    name: str
    claim: str
    run: Callable[[Context], Outcome]
    targets: tuple[str, ...] = ("npu", "cuda", "cpu")
    time_limit: float = 600.0  # seconds
    needs_device: bool = False  # says nothing where the target's device is not there: skipped


def gpu_is_here() -> bool:
    import torch

    return bool(torch.cuda.is_available())
