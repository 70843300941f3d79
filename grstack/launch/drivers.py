"""Which driver a toolkit needs, as its makers publish it: the one table of it."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Needs:
    """`oldest` is the first driver that works; `paired` the one that came out with the toolkit."""

    toolkit: str
    oldest: str
    paired: str
    source: str


# By what versions.yaml names: the CANN of target npu, the torch of target cuda.
NPU = {
    # No table has a row for 8.3.RC1 itself. MindCluster's lists HDK 25.0.RC1 to 25.5.0 for CANN 8.1.RC1 to 8.5.0.
    "8.3.RC1": Needs(
        toolkit="CANN 8.3.RC1", oldest="25.0.RC1", paired="25.3.RC1", source="MindCluster 7.3.0, release notes"
    ),
    # The same table, whose lists of CANN and HDK run side by side.
    "8.2.RC1": Needs(
        toolkit="CANN 8.2.RC1", oldest="25.0.RC1", paired="25.2.0", source="MindCluster 7.3.0, release notes"
    ),
    "8.5.0": Needs(toolkit="CANN 8.5.0", oldest="25.0.RC1", paired="25.5.0", source="CANN 8.5.0, release notes"),
}
GPU = {
    # The wheels of torch 2.8.0 are built with CUDA 12.8; minor versions of CUDA 12 share the oldest driver.
    "2.8.0": Needs(
        toolkit="CUDA 12.8",
        oldest="525.60.13",
        paired="570.124.06",
        source="CUDA Toolkit release notes, tables 2 and 3",
    ),
}


def order(version: str) -> tuple[tuple[int, int], ...]:
    """A key to sort by: 25.0.RC1 < 25.0.RC1.1 < 25.0.0 < 25.2.0, and 525.60.13 < 570.26.

    Raises ValueError for what is no version.
    """
    key: list[tuple[int, int]] = []
    for part in version.strip().lower().split("."):
        found = re.fullmatch(r"(rc|t|b|alpha|beta)?(\d+)[a-z]*\d*", part)
        if found is None:
            raise ValueError(f"'{version}' is not a driver's version")
        key.append((0 if found[1] else 1, int(found[2])))
    return tuple(key)


def older(found: str, wanted: str) -> bool:
    return order(found) < order(wanted)
