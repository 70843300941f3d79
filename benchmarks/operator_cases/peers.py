"""Where ours and the peers are found, and the copy that pure moves are measured against."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version

import torch

from .cases import Case, Side

OURS, STOCK = torch.ops.mxrec, torch.ops.fbgemm
FBGEMM = f"fbgemm_gpu {version('fbgemm_gpu_cpu')}"

COPY = "copy_"
ROOFLINE = "bytes alone, C++ loop"  # no dispatcher, checks or allocation: a bound, not a peer to be reached
FEWEST_BYTES = 1e6
OF_COPY = 0.8  # of the bandwidth of a copy, for operators that only move


def with_copy(case: Case) -> Iterator[Case]:
    """The case, and the same beside a copy that reads and writes as many bytes as it does in all, into memory that is
    there.

    Without the copy where there are so few bytes that the call itself counts.
    """
    yield case
    if case.moved_bytes < FEWEST_BYTES:
        return
    sources = [torch.zeros(int(case.moved_bytes) // 2, dtype=torch.uint8) for _ in range(case.batches)]
    target = torch.zeros_like(sources[0])
    yield replace(case, peer=COPY, theirs=lambda i: partial(target.copy_, sources[i]), target=OF_COPY, tolerance=None)


def with_roofline(case: Case, loop: Side) -> Iterator[Case]:
    """The same beside a loop that only moves or reads the bytes that the operator has to."""
    yield replace(case, peer=ROOFLINE, theirs=loop, target=0.0, tolerance=None, verify=None)
