"""What a run launched, waited for and copied, as an emulated NPU counted it (TWIN_COUNTS, docs/twin.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class Counts:
    """One line of the file: of a step, or of the whole process."""

    line: dict[str, Any]

    @property
    def launches(self) -> int:
        return sum(sum(names.values()) for names in self.line["launches"].values())

    def launches_of(self, kind: str) -> int:
        """custom, aclnn, aten or hccl"""
        return sum(self.line["launches"][kind].values())

    @property
    def waits(self) -> dict[str, int]:
        """Of the host, by the call that waited."""
        return {call: count for calls in self.line["waits"].values() for call, count in calls.items()}

    @property
    def copies(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.line["copies"]
        return found

    @property
    def places(self) -> list[dict[str, Any]]:
        """Lines of Python that waited, or copied to the host."""
        found: list[dict[str, Any]] = self.line["places"]
        return found

    @property
    def kernels(self) -> dict[str, dict[str, int]]:
        """launches, bytes_read, bytes_written and products of the operators that ran on emulated cores."""
        found: dict[str, dict[str, int]] = self.line["kernels"]
        return found

    @property
    def peak(self) -> int:
        """Bytes, of the device that had most."""
        return max((row["peak_bytes"] for row in self.line["memory"]), default=0)

    def bytes(self, way: str) -> int:
        """host_to_device, device_to_host or device_to_device"""
        return sum(row["bytes"] for row in self.copies if row["way"] == way)


def of_this_process() -> list[Counts]:
    """The steps that TWIN_COUNTS has of this process so far; empty where nothing is counted."""
    pattern = os.environ.get("TWIN_COUNTS", "")
    names = {"%p": str(os.getpid()), "%r": os.environ.get("RANK") or "0", "%%": "%"}
    path = Path("".join(_expanded(pattern, names)))
    if not pattern or not path.is_file():
        return []
    found: list[Counts] = []
    for text in path.read_text(encoding="utf-8").splitlines(True):
        line = json.loads(text) if text.endswith("\n") else {}
        if line.get("schema") == SCHEMA and line["kind"] == "step" and line["pid"] == os.getpid():
            if line["index"] == 0:
                found.clear()  # what a former process of this id appended
            found.append(Counts(line))
    return found


def figures(steps: Sequence[Counts]) -> list[tuple[str, str]]:
    """(what, figure as text): medians over the steps but the first, which makes the optimizer's state."""
    measured = steps[1:] or steps
    if not measured:
        return []

    def middle(figures: Sequence[int]) -> str:
        return f"{median(figures):,.0f}" + (f" (at most {max(figures):,})" if max(figures) != median(figures) else "")

    kinds = {"custom": "launches of our operators", "aclnn": "aclnn functions", "aten": "ATen operators"}
    rows = [("launches", middle([step.launches for step in measured]))]
    rows += [(name, middle([step.launches_of(kind) for step in measured])) for kind, name in kinds.items()]
    rows += [("collectives", middle([step.launches_of("hccl") for step in measured]))]
    rows += [("waits of the host", middle([sum(step.waits.values()) for step in measured]))]
    for way, name in (("host_to_device", "to the device"), ("device_to_host", "to the host")):
        rows.append((f"bytes copied {name}", middle([step.bytes(way) for step in measured])))
    rows.append(("peak of device memory, MiB", f"{max(step.peak for step in steps) / 2**20:,.1f}"))
    for name in sorted({name for step in measured for name in step.kernels}):
        work = [step.kernels[name] for step in measured if name in step.kernels]
        moved = middle([one["bytes_read"] + one["bytes_written"] for one in work])
        rows.append((f"{name}: bytes of global memory", moved))
        if any(one["products"] for one in work):
            rows.append((f"{name}: products", middle([one["products"] for one in work])))
    return rows


def summary(steps: Sequence[Counts]) -> dict[str, Any]:
    """What a run's log keeps of its steps, for the report."""
    return {"steps": len(steps), "figures": figures(steps), "places": waiting_places(steps)}


def waiting_places(steps: Sequence[Counts]) -> list[tuple[str, str, int]]:
    """(call, Python line, count) of the steps but the first; the most frequent first."""
    found: dict[tuple[str, str], int] = {}
    for step in steps[1:] or steps:
        for row in step.places:
            key = (row["call"], row["at"])
            found[key] = found.get(key, 0) + row["count"]
    return [(call, at, count) for (call, at), count in sorted(found.items(), key=lambda item: -item[1])]


def _expanded(pattern: str, names: dict[str, str]) -> list[str]:
    """As the runtime reads the name of the file."""
    parts, at = [], 0
    while at < len(pattern):
        part = pattern[at : at + 2]
        parts.append(names.get(part, pattern[at]))
        at += 2 if part in names else 1
    return parts
