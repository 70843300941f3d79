"""The Ascend C operators: where they are installed, and their results on the device against NumPy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from smoke_tests.check import CheckFailed, Context, Outcome

FBGEMM_NAMES = ("asynchronous_complete_cumsum", "jagged_to_padded_dense", "dense_to_jagged")


def run(context: Context) -> Outcome:
    operators = [name.replace("-", "_") for name in context.manifest["operators"]]
    faults, vendors = vendor_faults(operators, Path(os.environ["ASCEND_OPP_PATH"]))
    missing = [name for name in FBGEMM_NAMES if name not in operators]
    faults += [f"the image was not built with the operator {name}" for name in missing]
    if faults:
        raise CheckFailed(f"{len(faults)} faults of installation", faults)

    import torch

    from gr_model.device import open_device
    from gr_model.jagged import load_operators

    device = open_device(context.device)
    load_operators(device)
    for name in FBGEMM_NAMES:
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"fbgemm::{name}", "PrivateUse1"):
            raise CheckFailed(f"torch.ops.fbgemm.{name} has no kernel for NPU tensors")
    count = 0
    with warnings.catch_warnings():
        # torch_npu warns when it copies to the CPU and computes there: a right value would then prove nothing.
        warnings.filterwarnings("error", message=".*fall back to run on the CPU.*")
        for what, compute, expected in comparisons(device):
            count += 1
            actual = compute().cpu().numpy()
            if actual.shape != expected.shape or actual.dtype != expected.dtype or not np.array_equal(actual, expected):
                raise CheckFailed(f"{what} differs from the reference", [f"got {actual}", f"expected {expected}"])
    loaded = Path("/proc/self/maps").read_text()
    unused = [vendor for vendor, library in vendors.items() if str(library.resolve()) not in loaded]
    if unused:
        raise CheckFailed("operators ran, but not from " + ", ".join(unused))
    return Outcome(f"{len(vendors)} operators, {count} results equal to the reference", list(vendors))


def vendor_faults(operators: list[str], opp: Path) -> tuple[list[str], dict[str, Path]]:
    """config.ini must list vendor mxrec_<operator>, and its library must export both phases."""
    from elftools.elf.elffile import ELFFile

    config = opp / "vendors" / "config.ini"
    if not config.is_file():
        return [f"{config} does not exist: no operator package is installed"], {}
    lines = dict(line.split("=", 1) for line in config.read_text().splitlines() if "=" in line)
    priority = [vendor.strip() for vendor in lines.get("load_priority", "").split(",")]
    faults, vendors = [], {}
    for operator in operators:
        vendor = f"mxrec_{operator}"
        library = opp / "vendors" / vendor / "op_api" / "lib" / "libcust_opapi.so"
        if vendor not in priority:
            faults.append(f"{config}: load_priority does not list {vendor}; it has {', '.join(priority)}")
        elif not library.is_file():
            faults.append(f"{library} does not exist")
        else:
            with library.open("rb") as file:
                table: Any = ELFFile(file).get_section_by_name(".dynsym")
                exported = {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"}
            camel = "".join(part.capitalize() for part in operator.split("_"))
            lacking = {f"aclnn{camel}", f"aclnn{camel}GetWorkspaceSize"} - exported
            faults += [f"{library} does not export {symbol}" for symbol in sorted(lacking)]
            vendors[vendor] = library
    return faults, vendors


def comparisons(device: Any) -> Iterator[tuple[str, Callable[[], Any], np.ndarray]]:
    """(what, its computation on the device, expected). First the documents' worked examples, then random ones."""
    import torch

    ops = torch.ops.fbgemm

    def put(array: np.ndarray) -> Any:
        return torch.from_numpy(array).to(device)

    def cumsum(lengths: np.ndarray) -> Callable[[], Any]:
        return lambda: ops.asynchronous_complete_cumsum(put(lengths))

    def to_padded(values: np.ndarray, bounds: np.ndarray, longest: int, pad: float) -> Callable[[], Any]:
        return lambda: ops.jagged_to_padded_dense(put(values), [put(bounds)], [longest], pad)

    def to_jagged(dense: np.ndarray, bounds: np.ndarray, total: int | None) -> Callable[[], Any]:
        return lambda: ops.dense_to_jagged(put(dense), [put(bounds)], total)[0]

    def gradient(values: np.ndarray, bounds: np.ndarray, padded: np.ndarray) -> Callable[[], Any]:
        """Of to_padded at `values` towards `padded`."""

        def compute() -> Any:
            x = put(values).requires_grad_()
            ops.jagged_to_padded_dense(x, [put(bounds)], [padded.shape[1]], 0.0).backward(put(padded))
            return x.grad

        return compute

    yield "cumsum, example", cumsum(np.array([2, 3, 1, 4], np.int32)), np.array([0, 2, 5, 6, 10], np.int32)
    bounds, values = np.array([0, 2, 5, 6]), np.arange(1, 7)
    dense = np.zeros((3, 50), np.int64)
    dense[0, :2], dense[1, :3], dense[2, :1] = [1, 2], [3, 4, 5], [6]
    yield "to padded, example", to_padded(values, bounds, 50, 0.0), dense
    yield "to jagged, example", to_jagged(dense[:, :10], bounds, None), values

    rng = np.random.default_rng(0)
    # Rows: none, one, some empty, many; longest: shorter than some rows (truncation) and longer than all;
    # inner sizes below, at and above a 32-byte block, and one that is no multiple of it.
    for rows, longest, inner, kind in (
        (0, 5, 4, np.float32), (1, 7, 1, np.float32), (17, 3, 50, np.float32), (64, 40, 8, np.float16),
        (128, 200, 13, np.int64), (33, 20, 100, np.int32), (5, 9, 3, np.int8),
    ):  # fmt: skip
        lengths = rng.integers(0, 30, rows)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        name = f"{rows} rows, longest {longest}, inner {inner}, {np.dtype(kind).name}"
        yield f"cumsum, {name}", cumsum(lengths), bounds
        values = rng.integers(-100, 100, (bounds[-1], inner)).astype(kind)
        padded, back = reference(values, bounds, longest, pad=7)
        yield f"to padded, {name}", to_padded(values, bounds, longest, 7.0), padded
        yield f"to jagged, {name}", to_jagged(padded, bounds, int(bounds[-1])), back
        if kind is np.float32:
            yield f"gradient of to padded, {name}", gradient(values, bounds, padded), back


def reference(values: np.ndarray, bounds: np.ndarray, limit: int, pad: float) -> tuple[np.ndarray, np.ndarray]:
    """(padded, what to_jagged makes of padded): rows past `limit` are cut off, and come back as zeros."""
    padded = np.full((len(bounds) - 1, limit, values.shape[1]), pad, values.dtype)
    back = np.zeros_like(values)
    for row, (start, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        kept = min(end - start, limit)
        padded[row, :kept] = values[start : start + kept]
        back[start : start + kept] = values[start : start + kept]
    return padded, back
