"""How large the layers of an image may be: `# at most N MB` in the Dockerfile, above the line that makes a layer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grstack.errors import StepError

MB = 1_000_000
OTHERS = 64  # MB; a layer of our own sources, scripts or one component
_LIMIT = re.compile(r"^# at most (\d+) MB\n(?:#.*\n)*(COPY|RUN|FROM)((?: +--\S+)*) +(.+)$", re.MULTILINE)
FROM_ENVIRONMENT = "FROM ${ENVIRONMENT}"


def limits(dockerfile: str) -> dict[str, int]:
    """MB by instruction, as the engine's history has them: without the options of COPY and RUN."""
    joined = dockerfile.replace("\\\n", " ")
    return {f"{match[2]} {' '.join(match[4].split())}": int(match[1]) for match in _LIMIT.finditer(joined)}


def too_large(history: Iterable[Mapping[str, Any]], allowed: Mapping[str, int]) -> list[str]:
    """What exceeds its limit, a line each. `history` is the engine's: CreatedBy and Size (bytes) of every layer."""
    found = []
    for layer in history:
        made_by = str(layer["CreatedBy"]).removesuffix(" # buildkit").replace("RUN /bin/sh -c ", "RUN ")
        made_by = " ".join(made_by.split())
        limit = allowed.get(made_by, OTHERS)
        if layer["Size"] > limit * MB:
            found.append(f"{made_by}: {layer['Size'] / MB:.0f} MB, at most {limit}")
    return found


def above_the_base(
    image: Sequence[Mapping[str, Any]], environment: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Of an image FROM the environment: its own layers, newest first, and one that stands for the environment's."""
    packages = sum(layer["Size"] for layer in environment[: len(environment) - len(base)])
    return [*image[: len(image) - len(environment)], {"CreatedBy": FROM_ENVIRONMENT, "Size": packages}]


def check(history: Iterable[Mapping[str, Any]], dockerfile: str, where: str) -> None:
    """Raises StepError where a layer is too large. A Dockerfile without limits has none."""
    allowed = limits(dockerfile)
    if allowed and (faults := too_large(history, allowed)):
        raise StepError(
            "layers of the image are too large:\n" + "\n".join(f"  {fault}" for fault in faults),
            where=where,
            next_command=f"${{EDITOR:-vi}} {where}",
        )
