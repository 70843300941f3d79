"""Operators on the emulated NPU beside the NumPy, SciPy and Python functions that PyTorch's database names as their
references, in place too; prints as JSON, for each operator and data type, samples, and the first that differs."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_npu  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "twin/python"))
from ascend_twin.conformance import calls, cases  # noqa: E402

DTYPES = ("float32", "int64", "bool")
SAMPLES = 4
RTOL, ATOL = 1e-4, 1e-5  # float32 beside NumPy's and SciPy's own series
NOT_COMPARED = {
    r"item|allclose|equal|broadcast_shapes|tr[iu][ul]_indices|signal\.windows\..*": "gives no tensor of the device",
    r"jiterator_.*": "CUDA's alone",
    r"fft\..*": "the reference takes other arguments",
    r"masked\..*": "the reference takes tensors",
    r"tensor_split": "takes its sections on the host",
    r"nn\.functional\.conv_transpose.*": "the reference is PyTorch's own",
    r"logit": "the reference takes no scalars",
    r"special\.spherical_bessel_j0": "the reference takes no bool",
}
# PyTorch's default, where the reference has another.
DEFAULTS: dict[str, dict[str, Any]] = {"std": {"correction": 1}, "var": {"correction": 1}}


def on_npu(value: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda x: x.npu() if isinstance(x, torch.Tensor) else x, value)


def plain(value: Any) -> Any:
    """Arrays of the tensors, for a reference."""
    return torch.utils._pytree.tree_map(lambda x: x.numpy() if isinstance(x, torch.Tensor) else x, value)


def detached(value: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, value)


def difference(found: Any, expected: Any) -> str:
    """ "" where nothing differs."""
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple | list) else [(found, expected)]
    for one, reference in pairs:
        assert one.device.type == "npu"
        host, want = one.cpu().numpy(), np.asarray(reference)
        if host.shape != want.shape:
            return f"shape {host.shape}, reference {want.shape}"
        if want.dtype == np.float16:
            continue  # what NumPy makes of bool
        if host.dtype.kind in "fc":
            same = np.allclose(host, want, rtol=RTOL, atol=ATOL, equal_nan=True)
        else:
            same = np.array_equal(host, want.astype(host.dtype, copy=False))
        if not same:
            return f"{host.ravel()[:4].tolist()}, reference {want.ravel()[:4].tolist()}"
    return ""


def in_place(info: Any, given: Any, options: Any, expected: Any) -> str:
    """The same of the form that writes into its first operand, where the result has its shape and type."""
    form, first = info.get_inplace(), given[0]
    if form is None or not isinstance(first, torch.Tensor):
        return ""
    target = first.clone()
    try:
        form(target, *given[1:], **options)
    except RuntimeError:
        return ""  # PyTorch refuses it on the CPU, so it is not asked on the device
    if target.shape != first.shape:
        return ""  # PyTorch resizes its operand (addbmm_), which a device does not
    on_device = first.clone().npu()
    form(on_device, *on_npu(given[1:]), **on_npu(options))
    wanted = np.asarray(expected)
    return difference(on_device, wanted.astype(target.numpy().dtype) if wanted.shape == target.shape else wanted)


def compared(info: Any, sample: Any) -> str:
    """What differs, "" where nothing does."""
    given, options = detached((sample.input, *sample.args)), detached(sample.kwargs)
    defaults = {} if "unbiased" in options else DEFAULTS.get(info.name, {})
    expected = info.ref(*plain(given), **{**defaults, **plain(options)})
    told = difference(info.op(*on_npu(given), **on_npu(options)), expected)
    return told or in_place(info, given, options, expected)


def main() -> None:
    rows: dict[str, dict[str, Any]] = {}
    for name, info in cases.database().items():
        if getattr(info, "ref", None) is None or any(re.fullmatch(pattern, name) for pattern in NOT_COMPARED):
            continue
        for dtype in cases.dtypes_of(info, DTYPES):
            row = rows[f"{name} {dtype}"] = {"samples": 0, "differs": ""}
            for sample in itertools.islice(cases.samples(info, cases.Case(name, dtype))[0], SAMPLES):
                try:
                    told = compared(info, sample)
                except Exception as error:
                    told = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                row["samples"] += 1
                row["differs"] = row["differs"] or told
    print(json.dumps({"rows": rows, "called": calls.called()}))


if __name__ == "__main__":
    main()
