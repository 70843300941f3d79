"""The operators that gr_ops brings for the CPU, against NumPy."""

from __future__ import annotations

import warnings
from itertools import chain

import numpy as np
import torch

from smoke_tests.check import CheckFailed, Context, Outcome
from smoke_tests.checks import jagged_cases
from smoke_tests.checks.model_cases import comparisons as model_cases
from smoke_tests.checks.operator_cases import comparisons as operator_cases
from smoke_tests.operator_names import TORCH_OPERATORS

DISPATCH_KEY = "CPU"


def run(context: Context) -> Outcome:
    from gr_model.model.jagged import load_operators
    from gr_model.runtime.device import open_device

    device = open_device("cpu")  # on a GPU most of these are fbgemm's own; gr_ops' attention there is in `losses`
    found = load_operators(device)
    if found != "gr_ops":
        raise CheckFailed(f"the operators are those of {found}: gr_ops is not installed")
    names = TORCH_OPERATORS.values()
    missing = [name for name in names if not torch._C._dispatch_has_kernel_for_dispatch_key(name, DISPATCH_KEY)]
    if missing:
        raise CheckFailed(f"{len(missing)} operators have no kernel for {device.type}", missing)
    return Outcome(f"{len(names)} operators of fbgemm, {compare(device)} results equal to the reference")


def compare(device: torch.device) -> int:
    """How many results there are; raises CheckFailed at the first that differs."""
    count = 0
    with warnings.catch_warnings():
        # torch_npu warns when it copies to the CPU and computes there: a right value would then prove nothing.
        warnings.filterwarnings("error", message=".*fall back to run on the CPU.*")
        for what, compute, expected, tolerance in chain(
            jagged_cases.comparisons(device), model_cases(device), operator_cases(device)
        ):
            count += 1
            actual = compute().cpu().numpy()
            same = actual.shape == expected.shape and actual.dtype == expected.dtype
            if not (same and np.allclose(actual, expected, rtol=tolerance, atol=tolerance)):
                raise CheckFailed(f"{what} differs from the reference", [f"got {actual}", f"expected {expected}"])
    return count
