"""Where ours and the peers are found, and the copy that pure moves are measured against."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version

import torch

from .cases import Call, Case

OURS, STOCK = torch.ops.mxrec, torch.ops.fbgemm
FBGEMM = f"fbgemm_gpu {version('fbgemm_gpu_cpu')}"

ROOFLINE = "bytes alone, C++ loop"  # no dispatcher, checks or allocation: a bound, not a peer to be reached
FEWEST_BYTES = 1e6
OF_COPY = 0.8  # of the bandwidth of a copy, for operators that only move


def with_clone(case: Case) -> Iterator[Case]:
    """The case, and the same beside a copy that reads and writes as many bytes as it does in all.

    Without the copy where there are so few bytes that the call itself counts.
    """
    yield case
    if case.moved_bytes < FEWEST_BYTES:
        return
    source = torch.zeros(int(case.moved_bytes) // 2, dtype=torch.uint8)
    yield replace(case, peer="clone", theirs=source.clone, target=OF_COPY, tolerance=None)


def with_roofline(case: Case, loop: Call) -> Iterator[Case]:
    """The same beside a loop that only moves or reads the bytes that the operator has to."""
    yield replace(case, peer=ROOFLINE, theirs=loop, target=0.0, tolerance=None, verify=None)
