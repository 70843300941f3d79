"""A case of an operator that third parties wrote: how it is called, and compared with numpy in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Their results are of float, whatever their inputs.
PRODUCTS = ("RowMoments", "RowDeviations", "ProductSoftmax", "AttentionRows", "MatmulLeaky", "MatmulPlain")

# How inputs are given whose values the host reads.
VALUES = {
    "RepeatInterleaveCustom": lambda aclnn_host: lambda values: aclnn_host.Ints(values.tolist()),
    "RollCustom": lambda aclnn_host: aclnn_host.HostTensor,
}


@dataclass(frozen=True)
class Case:
    """One operator: what a call is given, its expected result, and what must be set for it to run."""

    type: str
    snake: str
    inputs: Callable[[np.random.Generator, int], list[Any]]
    expected: Callable[..., np.ndarray]
    attributes: tuple[Any, ...] = ()
    sizes: tuple[int, ...] = (1, 7, 64, 1000, 6001)
    tolerance: float = 2e-6
    lenient: bool = False


def float64(*arrays: Any) -> list[Any]:
    return [a.astype(np.float64) if isinstance(a, np.ndarray) else a for a in arrays]


def wide(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def argument(case: Case, value: Any, dtype: str) -> Any:
    import aclnn_host

    if case.type == "ClipByValue":
        return aclnn_host.Scalar(np.array(value, dtype))
    if case.type == "PowScalar":
        return aclnn_host.Ints([int(v) for v in value.split(",")])
    return value


def run(host, library: Path, case: Case, size: int) -> None:
    import aclnn_host

    generator = np.random.default_rng(size)
    inputs = case.inputs(generator, size)
    bits = case.type == "AddcdivCustom"
    expected = np.asarray(case.expected(*([wide(x) for x in inputs] if bits else float64(*inputs))))
    kinds = {"ArgMax": np.int32, "OneHotCustom": np.float32, "NonZeroCustom": np.int64}
    kinds["AboveMean"] = np.bool_
    kinds |= dict.fromkeys(PRODUCTS, np.float32)
    by_kernel = case.type == "NonZeroCustom"  # it gets room for the most that there can be
    shape = (inputs[0].size, 2) if by_kernel else expected.shape
    result = np.empty(shape, kinds.get(case.type, inputs[0].dtype))
    marked = [aclnn_host.Bits(x, aclnn_host.BFLOAT16) if bits else x for x in (*inputs, result)]
    if case.type in VALUES:
        marked[1] = VALUES[case.type](aclnn_host)(inputs[1])
    if by_kernel:
        marked[-1] = aclnn_host.Shaped(result)
    if case.type == "AxpyInPlace":  # its first input is its output
        result = inputs[0].copy()
        marked[0] = result
        del marked[-1]
    attributes = [argument(case, a, inputs[0].dtype.name) for a in case.attributes]
    outputs = [] if case.type == "AxpyInPlace" else [marked.pop()]
    host.call(library, case.type, *marked, *attributes, *outputs)
    result = outputs[0].result if by_kernel else result
    given = wide(result) if bits else result.astype(np.float64)
    np.testing.assert_allclose(given, expected, rtol=case.tolerance, atol=case.tolerance)
