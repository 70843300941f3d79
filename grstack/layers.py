"""How large the layers of an image may be: `# at most N MB` in the Dockerfile, above the line that makes a layer.

A component's line gets it from its recipe (`layer_mb`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grstack.errors import StepError

MB = 1_000_000
OTHERS = 64  # MB; a layer of our own sources, scripts or one component
_LIMIT = re.compile(r"^# at most (\d+) MB\b.*\n(?:#.*\n)*(COPY|RUN)((?: +--\S+)*) +(.+)$", re.MULTILINE)
_BELOW = re.compile(r"^((?:#.*\n)+)FROM .+$", re.MULTILINE)


def limits(dockerfile: str) -> dict[str, int]:
    """MB by instruction, as the engine's history has them: without the options of COPY and RUN."""
    joined = dockerfile.replace("\\\n", " ")
    return {f"{match[2]} {' '.join(match[4].split())}": int(match[1]) for match in _LIMIT.finditer(joined)}


def limits_below(dockerfile: str) -> list[tuple[int, str]]:
    """MB and what it is, of each layer of the image that it is made FROM, the lowest first: the lines above FROM."""
    return [
        (int(limit), what)
        for match in _BELOW.finditer(dockerfile)
        for limit, what in re.findall(r"^# at most (\d+) MB: (.+)$", match[1], re.MULTILINE)
    ]


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


def check(history: Iterable[Mapping[str, Any]], dockerfile: str, where: str) -> None:
    """Raises StepError where a layer is too large. A Dockerfile without limits has none."""
    allowed = limits(dockerfile)
    if allowed or limits_below(dockerfile):
        _refuse(too_large(history, allowed), where)


def check_below(history: Iterable[Mapping[str, Any]], dockerfile: str, where: str) -> None:
    """The same for the layers of the image that it is made FROM, newest first. The newest has the last limit: of an
    image that stands on a base of others only the upper ones are looked at. Raises StepError."""
    allowed = limits_below(dockerfile)
    if not allowed:
        return
    sizes = [layer["Size"] for layer in history if layer["Size"]]
    faults = [
        f"{what}: {size / MB:.0f} MB, at most {limit}"
        for size, (limit, what) in zip(sizes, reversed(allowed), strict=False)
        if size > limit * MB
    ]
    if len(sizes) > len(allowed):
        faults.append(f"{len(sizes)} layers below it, and limits for {len(allowed)}")
    _refuse(faults, where)


def _refuse(faults: Sequence[str], where: str) -> None:
    if faults:
        raise StepError(
            "layers of the image are too large:\n" + "\n".join(f"  {fault}" for fault in faults),
            where=where,
            next_command=f"${{EDITOR:-vi}} {where}",
        )
