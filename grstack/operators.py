"""The operators' own definitions: what op_host declares, which versions.yaml must agree with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from grstack.errors import SpecError

FOLDER = "kernels/operators"
_ADD_CONFIG = re.compile(r"\bAddConfig\(\s*\"(\w+)\"")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def declared_socs(root: Path, operator: str) -> set[str]:
    """The SoCs for which the sources in op_host call AddConfig."""
    sources = (root / FOLDER / operator / "op_host").glob("*.cpp")
    return {soc for source in sources for soc in _ADD_CONFIG.findall(_COMMENT.sub("", source.read_text()))}


def check(root: Path, socs: Mapping[str, Sequence[str]]) -> None:
    """Raises SpecError for every operator whose SoCs in versions.yaml are not those of its definition.

    A package for a SoC that its definition leaves out would install and then serve nothing.
    """
    faults = []
    for operator, wanted in socs.items():
        if not (root / FOLDER / operator / "op_host").is_dir():
            faults.append(f"operator {operator} has no {FOLDER}/{operator}/op_host")
            continue
        declared = declared_socs(root, operator)
        if declared != set(wanted):
            faults.append(
                f"operator {operator}: versions.yaml has {_listed(wanted)}, its definition declares {_listed(declared)}"
            )
    if faults:
        raise SpecError(
            "\n".join(faults),
            where="versions.yaml, operators",
            next_command=f"make versions.yaml and AddConfig in {FOLDER}/<operator>/op_host agree",
        )


def _listed(socs: Sequence[str] | set[str]) -> str:
    return ", ".join(sorted(socs)) or "none"
