"""Which kernels take a problem: those for Hopper in Gluon, or those in Triton, which take all.

RULES say where the former do not, and why; the first that holds decides. On a Hopper GPU without the versions
that its kernels were tested with, nor such a Triton beside them (cubins/), the log says so once.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton

from gr_ops.cuda import cubins
from gr_ops.cuda.mask import LOWER
from gr_ops.cuda.problem import Problem

log = logging.getLogger(__name__)
HOPPER = (9, 0)
# Gluon is experimental: other versions may compile to something else, or not at all. Launches know Triton's inside too.
TESTED = {("2.11", "3.6.0")}  # torch, triton


@dataclass(frozen=True)
class Machine:
    """What the choice depends on besides the problem."""

    capability: tuple[int, int]
    torch: str
    triton: str
    gluon: bool
    compiler: str | None = None  # the Triton that compiles in a process of its own

    @property
    def tested(self) -> bool:
        if self.compiler:  # PyTorch has no part in it
            return self.compiler in {version for _, version in TESTED}
        return self.gluon and (".".join(self.torch.split(".")[:2]), self.triton) in TESTED


@dataclass(frozen=True)
class Rule:
    refuses: Callable[[Problem, Machine], bool]
    why: str


RULES = (
    Rule(lambda p, m: m.capability != HOPPER, "wgmma and its registers are Hopper's alone (Blackwell has others)"),
    Rule(lambda p, m: not m.tested, "Gluon is experimental: tested versions only"),
    Rule(lambda p, m: p.q.dtype not in (torch.bfloat16, torch.float16), "wgmma takes no float32 but as TF32"),
    Rule(lambda p, m: p.dense is not None, "a dense bias is not in these kernels"),
    Rule(lambda p, m: p.relative is not None and p.windowed != 0, "a relative bias and a window"),
    Rule(
        lambda p, m: p.relative is not None and p.q.shape[2] > 128,
        "a relative bias is not in the gradients of wider heads",
    ),
    Rule(lambda p, m: p.mask_type != LOWER, "of the mask types the lower one"),
    Rule(lambda p, m: p.distance >= 0, "a window by distance in the row is not in these kernels"),
    Rule(lambda p, m: p.varlen, "fewer queries than keys, or keys in pages, are not in these kernels"),
    Rule(lambda p, m: p.q.shape[2] != p.v.shape[2], "one width for queries and values"),
    Rule(lambda p, m: p.q.shape[2] % 8 != 0, "TMA moves 16 bytes at least"),
    Rule(lambda p, m: not 32 <= p.q.shape[2] <= 256, "registers and shared memory hold heads of 32 to 256"),
    Rule(
        lambda p, m: p.q.shape[2] <= 128 and (p.deterministic or torch.are_deterministic_algorithms_enabled()),
        "the gradient of queries is summed in any order; that of wider heads is not",
    ),
    Rule(lambda p, m: len(p.q) >= 2**31 - 256, "tokens are numbered in 32 bits"),
)


def refusal(p: Problem, machine: Machine) -> str | None:
    """Why Triton's kernels take the problem; None: those for Hopper do."""
    return next((rule.why for rule in RULES if rule.refuses(p, machine)), None)


def hopper(p: Problem) -> Any:
    """gr_ops.cuda.hopper.launch if it takes the problem, else None."""
    if not p.q.is_cuda or refusal(p, machine(p.q.device.index)) is not None:
        return None
    from gr_ops.cuda.hopper import launch  # which asks this module what it is tested with

    return launch


@cache
def machine(device: int) -> Machine:
    found = Machine(
        torch.cuda.get_device_capability(device),
        torch.__version__,
        triton.__version__,
        importlib.util.find_spec("triton.experimental.gluon") is not None,
        cubins.version(),
    )
    if found.capability == HOPPER and not found.tested:
        log.warning(
            "HSTU attention on this Hopper GPU runs in Triton, at about 0.7 times the speed: the kernels for Hopper "
            "were tested with %s, here are torch %s and triton %s; or name a folder with such a triton in %s%s",
            " or ".join(f"torch {t} and triton {r}" for t, r in sorted(TESTED)),
            found.torch,
            found.triton,
            cubins.FOLDER,
            f", which has {found.compiler}" if found.compiler else "",
        )
    return found
