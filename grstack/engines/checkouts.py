"""What each checkout of this user has built last: whose a name like `grstack/npu:twin` is, what is still used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grstack import keys
from grstack.files import write_atomically
from grstack.paths import Paths
from grstack.plan import Plan


class Checkouts:
    """One file per checkout in the user's cache: its folder, and for each result the keys of the plan that made it."""

    def __init__(self, paths: Paths) -> None:
        self.folder = paths.cache / "checkouts"
        self.own = self.folder / f"{keys.of_text(str(paths.root))[:16]}.json"
        self.root = str(paths.root)

    def note(self, name: str, plan: Plan) -> None:
        """`name` is what this checkout calls the result of `plan` (npu:twin)."""
        results = _read(self.own).get("results", {})
        results[name] = {"key": plan.image.key, "steps": sorted(step.key for step in plan.steps)}
        write_atomically(self.own, json.dumps({"checkout": self.root, "results": results}, indent=1) + "\n")

    def owners(self, name: str, key: str) -> list[str]:
        """The folders of the checkouts whose last result of that name has this key."""
        return [root for root, results in self._all() if results.get(name, {}).get("key") == key]

    def used_by_others(self) -> set[str]:
        """The keys of the last plans of the other checkouts that are still there."""
        return {
            key
            for root, results in self._all()
            if root != self.root and Path(root, "versions.yaml").is_file()
            for result in results.values()
            for key in result["steps"]
        }

    def _all(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for file in sorted(self.folder.glob("*.json")):
            content = _read(file)
            if content.keys() >= {"checkout", "results"}:
                yield content["checkout"], content["results"]


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
