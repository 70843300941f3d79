"""The cases: PyTorch's OpInfo database, an operator and a data type at a time."""

from __future__ import annotations

import random
import sys
import types
import unittest
from dataclasses import dataclass
from typing import Any

DTYPES = ("float32", "float16", "bfloat16", "int64", "bool")
SEED = 20260101
QUICK_SAMPLES = 2


@dataclass(frozen=True)
class Case:
    """One operator (its OpInfo name and variant) at one data type; `limit` samples of it, or all."""

    op: str
    dtype: str
    limit: int | None = None


def database() -> dict[str, Any]:
    """OpInfo by name. The name has the variant behind a dot, as in `linalg.norm.subgradients_at_zero`."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ModuleNotFoundError:
            # PyTorch's test utilities only derive their TestCase from it; the database does not use it.
            stand_in = types.ModuleType("expecttest")
            stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
            sys.modules["expecttest"] = stand_in
    arguments, sys.argv = sys.argv, sys.argv[:1]  # the test utilities parse the command line when imported
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    finally:
        sys.argv = arguments
    return {info.name + (f".{info.variant_test_name}" if info.variant_test_name else ""): info for info in op_db}


def dtypes_of(info: Any, dtypes: tuple[str, ...]) -> list[str]:
    """Those of `dtypes` for which the CPU has the operator."""
    supported = {str(dtype).removeprefix("torch.") for dtype in info.supported_dtypes("cpu")}
    return [dtype for dtype in dtypes if dtype in supported]


def full(infos: dict[str, Any], dtypes: tuple[str, ...]) -> list[Case]:
    return [Case(name, dtype) for name, info in infos.items() for dtype in dtypes_of(info, dtypes)]


def quick(infos: dict[str, Any], dtypes: tuple[str, ...], every: int = 1, start: int = 0) -> list[Case]:
    """Each `every`-th operator from the `start`-th on: two samples at its first data type, and at one other that
    changes with the operator."""
    cases = []
    for place, (name, info) in enumerate(infos.items()):
        if place % every != start % every:
            continue
        first, *others = dtypes_of(info, dtypes) or [""]
        chosen = [first, *([others[place // every % len(others)]] if others else [])]
        cases += [Case(name, dtype, QUICK_SAMPLES) for dtype in chosen if dtype]
    return cases


def samples(info: Any, case: Case) -> tuple[list[Any], bool]:
    """The samples, on the CPU, the same ones each time; and whether their gradients can be asked for."""
    import numpy
    import torch

    dtype = getattr(torch, case.dtype)
    differentiable = bool(info.supports_autograd and dtype in info.supported_backward_dtypes("cpu"))
    torch.manual_seed(SEED)
    random.seed(SEED)
    numpy.random.seed(SEED)
    found: list[Any] = []
    for sample in info.sample_inputs("cpu", dtype, requires_grad=differentiable):
        if case.limit is not None and len(found) >= case.limit:
            break
        found.append(sample)
    return found, differentiable
