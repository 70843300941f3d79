"""python -m gr_ops.cuda.cubins: compiles what a model's attention and its layers need, so that training begins at once.

No GPU is needed: GR_OPS_TRITON must name a folder that holds the Triton that compiles. What is compiled already is
found again in a moment.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from gr_ops.cuda import cubins
from gr_ops.cuda.cubins import store
from gr_ops.cuda.cubins.facts import facts_of
from gr_ops.cuda.hopper import launch
from gr_ops.cuda.kernel import Kernel
from gr_ops.cuda.layer import hopper_products
from gr_ops.cuda.problem import Problem, Relative

TOKENS = 256
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Wanted:
    """A launch that a model will make."""

    kernel: Kernel
    facts: list[Any]
    options: dict[str, int]


@contextlib.contextmanager
def noted() -> Iterator[list[Wanted]]:
    """What would be launched in this block, of tensors of the CPU; launches do nothing."""
    found: list[Wanted] = []

    def note(
        kernel: Kernel, grid: Any, key: Any, arguments: Any, device: Any, other: Any = None, /, **options: int
    ) -> None:
        for given in (arguments, *([other()[1]] if other else [])):
            wanted = Wanted(kernel, facts_of(given), options)
            if wanted not in found:
                found.append(wanted)

    counter = torch.zeros(1, dtype=torch.int32)
    with contextlib.ExitStack() as stack:
        for module in (launch, hopper_products):
            stack.enter_context(mock.patch.object(module, "launch", note))
            stack.enter_context(mock.patch.object(module, "_multiprocessors", lambda device: 1))
        stack.enter_context(mock.patch.object(launch, "_counter", lambda device: counter))
        yield found


def of_attention(dtype: torch.dtype, heads: int, dim: int, segments: bool, relative: bool) -> list[Wanted]:
    """Both directions."""
    q, k, v, grad = (torch.zeros(TOKENS, heads, dim, dtype=dtype) for _ in range(4))
    counts = torch.zeros(2, dtype=torch.int64) if segments else None
    problem = Problem(
        q=q,
        k=k,
        v=v,
        offsets=torch.tensor([0, 100, TOKENS]),
        longest=156,
        scale=1.0,
        contexts=counts,
        targets=counts,
        relative=_relative() if relative else None,
    )
    with noted() as found:
        launch.attend(problem, torch.empty_like(q))
        launch.gradients(problem, grad, *(torch.empty_like(q) for _ in range(3)))
    return found


def _relative() -> Relative:
    seconds, cells = torch.zeros(TOKENS, dtype=torch.int64), torch.zeros(512, dtype=torch.int64)
    return Relative(torch.zeros(513), torch.zeros(65), seconds, cells)


def of_layer(dtype: torch.dtype, hidden: int, heads: int, dim: int) -> list[Wanted]:
    """The products of a layer, where their sizes suit them."""
    width = heads * dim
    if hidden % hopper_products.INNER or width % hopper_products.COLUMNS or hidden % hopper_products.COLUMNS:
        return []
    x, first, second = (
        torch.zeros(*size, dtype=dtype) for size in ((TOKENS, hidden), (hidden, 4 * width), (hidden, width))
    )
    parts = [torch.empty(TOKENS, width, dtype=dtype) for _ in range(4)]
    codes, bias = torch.empty(TOKENS, 4 * width, dtype=torch.uint8), torch.zeros(hidden, dtype=dtype)
    with noted() as found:
        hopper_products.silu_parts(x, first, parts)
        hopper_products.silu_parts(x, first, parts, codes)
        hopper_products.slope_parts(x, first, parts)
        hopper_products.with_residual(parts[0], second, bias, x, torch.empty_like(x))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gr_ops.cuda.cubins", description=__doc__)
    parser.add_argument("--heads", type=int, default=4, help="of attention (default: 4)")
    parser.add_argument("--dim", type=int, default=128, help="of a head, 32 to 256 in steps of 8 (default: 128)")
    parser.add_argument("--hidden", type=int, default=512, help="of the model (default: 512)")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="(default: bfloat16)")
    parser.add_argument("--relative", action="store_true", help="with a relative bias by position and time, too")
    asked = parser.parse_args()
    if cubins.version() is None:
        print(f"{cubins.FOLDER} names no other Triton: this process's own compiles, at first use", file=sys.stderr)
        return 2
    dtype = DTYPES[asked.dtype]
    wanted = of_layer(dtype, asked.hidden, asked.heads, asked.dim)
    for segments, relative in itertools.product((False, True), (False, True)[: 1 + asked.relative]):
        wanted += [w for w in of_attention(dtype, asked.heads, asked.dim, segments, relative) if w not in wanted]
    begin = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (each, _) in enumerate(zip(wanted, pool.map(_find, wanted), strict=True), 1):
            print(f"{number}/{len(wanted)} {each.kernel.name}, {time.monotonic() - begin:.1f} s", flush=True)
    print(f"kept in {store.folder()}")
    return 0


def _find(wanted: Wanted) -> store.Compiled:
    return store.find(wanted.kernel, wanted.facts, wanted.options)


if __name__ == "__main__":
    sys.exit(main())
