"""What one machine has: run on this host, or as `python -m grstack.opp.scan` where the operators are (in an image)."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grstack.opp.search import Candidate, Environment, candidates
from grstack.opp.vendor import Vendor
from grstack.opp.verify import Problem, verify


@dataclass(frozen=True, kw_only=True)
class State:
    environment: Environment
    found: tuple[Candidate, ...]
    problems: tuple[Problem, ...] | None = None  # None: not verified

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> State:
        content: dict[str, Any] = json.loads(text)
        environment = content["environment"]
        problems = content["problems"]
        return cls(
            environment=Environment(**{**environment, "custom": tuple(environment["custom"])}),
            found=tuple(Candidate(**{**c, "vendor": _vendor(c["vendor"])}) for c in content["found"]),
            problems=None if problems is None else tuple(Problem(**problem) for problem in problems),
        )


def _vendor(fields: dict[str, Any]) -> Vendor:
    return Vendor(**{**fields, "socs": tuple(fields["socs"]), "operators": tuple(fields["operators"])})


def scan(environment: Environment, *, verified: bool = False) -> State:
    found = candidates(environment)
    return State(environment=environment, found=found, problems=verify(environment, found) if verified else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the file to write, JSON")
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()
    options.out.write_text(scan(Environment.of(os.environ), verified=options.verify).to_json() + "\n")


if __name__ == "__main__":
    main()
