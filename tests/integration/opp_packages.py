"""The real packages of this repository, and what the tests of the opp commands ask of a directory."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from grstack.engines.artefacts import Artefacts
from grstack.opp.scan import State, scan
from grstack.opp.search import Environment
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "kernels/packaging"
CUMSUM, DENSE = "asynchronous_complete_cumsum", "dense_to_jagged"
OPAPI = "op_api/lib/libcust_opapi.so"


@dataclass(frozen=True)
class Real:
    """This repository's packages, and the toolkit that their libraries are loaded with."""

    session: Session

    @property
    def twin(self) -> Path:
        return Artefacts(self.session.paths).directory(self.session.plan.step("twin"))

    def package(self, operator: str) -> Path:
        step = self.session.plan.step(f"operators/{operator}")
        return Artefacts(self.session.paths).directory(step) / f"mxrec_opp_{operator}.run"

    @property
    def operators(self) -> list[str]:
        return list(self.session.versions.operators)


def run(argv: list[object], **variables: object) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND")}
    environment = {**clean, **{key: str(value) for key, value in variables.items()}}
    return subprocess.run(
        [str(a) for a in argv], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def look(opp: Path, toolkit: Path | str = "", **variables: str) -> State:
    variables = {**variables, "ASCEND_HOME_PATH": str(toolkit)}
    return scan(Environment.of(variables, opp=str(opp)), verified=True)


def errors(state: State) -> list[str]:
    return [f"{p.vendor}: {p.message}" for p in state.problems or () if p.severity == "error"]


def tree_state(root: Path) -> dict[str, str]:
    files = (p for p in sorted(root.rglob("*")) if p.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def camel(operator: str) -> str:
    return "".join(part.capitalize() for part in operator.split("_"))
