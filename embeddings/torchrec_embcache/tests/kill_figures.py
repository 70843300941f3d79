"""The report of many kills of stores and of training, made in pieces."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phases import PHASES

PROGRAMS = {"store": "steps of the store on disk", "training": "training with cache, host memory and disk"}


@dataclass(frozen=True)
class Kill:
    """ended: steps that were committed; phases: what the table was doing, on any thread; aim: None at system calls."""

    ended: int
    phases: set[str] = field(default_factory=set)
    aim: str | None = None


def add_to_report(path: Path, program: str, first: int, kills: list[Kill]) -> None:
    """Every kill in it is one whose remains were whole: a row lost or mixed up ends the test."""
    path = path.with_suffix(".json")
    report = json.loads(path.read_text()) if path.exists() else {}
    ended = [kill.ended for kill in kills]
    report[f"{program}, seeds {first} to {first + len(kills) - 1}"] = {
        "kills": len(kills),
        "fewest": min(ended),
        "most": max(ended),
        "all": sum(ended),
        "aimed": {phase: sum(kill.aim == phase for kill in kills) for phase in PHASES},
        "under way": {phase: sum(phase in kill.phases for kill in kills) for phase in PHASES},
    }
    path.write_text(json.dumps(dict(sorted(report.items())), indent=1) + "\n")
    path.with_suffix(".md").write_text(written(report))


def written(report: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Processes killed in the middle of a call",
        "",
        "`EMBCACHE_KILLS_REPORT=FILE python -m pytest -m slow embeddings/torchrec_embcache/tests/test_kill.py`: every",
        "process is ended as by kill -9, at a seeded call of the system (pwrite, fdatasync, ftruncate, rename, unlink;",
        "of a write a part may be done), or at a seeded call of a function while a phase was under way.",
        f"{platform.machine()}, {os.cpu_count()} cores. After each kill everything opened again, no committed row was",
        "lost, none was another id's, and nothing hung.",
        "",
        "| program | kills | steps that were committed before (fewest, most, all) |",
        "|---|---|---|",
    ]
    pieces = {
        kind: [piece for name, piece in report.items() if name.startswith(kind)] for kind in ("store", "training")
    }
    for kind, found in pieces.items():
        if found:
            few, most = min(piece["fewest"] for piece in found), max(piece["most"] for piece in found)
            lines.append(f"| {PROGRAMS[kind]} | {_sum(found, 'kills')} | {few}, {most}, {_sum(found, 'all')} |")
    lines += [
        "",
        "Of the kills in training (a save is a flush to disk; several phases go on at once, on three threads):",
    ]
    lines += ["", "| phase | kills aimed at it | kills while it was under way |", "|---|---|---|"]
    for phase in PHASES:
        aimed, hit = (sum(piece[key][phase] for piece in pieces["training"]) for key in ("aimed", "under way"))
        lines.append(f"| {phase} | {aimed} | {hit} |")
    at_system = _sum(pieces["training"], "kills") - sum(sum(piece["aimed"].values()) for piece in pieces["training"])
    lines += [f"| any call of the system | {at_system} | |", ""]
    lines += ["Kills in saves of checkpoints: checkpoint-kills.json (hash tables), embcache-checkpoint-kills.json."]
    return "\n".join(lines) + "\n"


def _sum(pieces: list[dict[str, Any]], key: str) -> int:
    return sum(piece[key] for piece in pieces)
