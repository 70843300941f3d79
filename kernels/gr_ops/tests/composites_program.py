"""Runs composite_cases on the NPU and on the CPU, where fbgemm_gpu's own kernels answer, and compares.

    python composites_program.py

Prints a JSON document: of each family the names that were called, and what differs. Never imports gr_ops.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import composite_cases as cases
import fbgemm_gpu  # noqa: F401
import torch
import torch_npu  # noqa: F401

DEVICE = "npu:0"
# Sums in another order; 16-bit results are rounded once there and once here.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}


def placed(value: Any, device: str, grads: list[torch.Tensor] | None) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach().to(device)
        if grads is not None and value.is_floating_point():
            grads.append(value.requires_grad_())
        return value
    if isinstance(value, list | tuple):
        return type(value)(placed(item, device, grads) for item in value)
    return value


def tensors(result: Any) -> list[Any]:
    parts = [result] if not isinstance(result, list | tuple) else itertools.chain.from_iterable(map(tensors, result))
    return list(parts)


def run(name: str, arguments: tuple[Any, ...], device: str, backward: bool) -> list[Any]:
    grads: list[torch.Tensor] | None = [] if backward else None
    call = getattr(torch.ops.fbgemm, name)
    if device == "cpu":
        call = cases.REFERENCES.get(name, call)
    results = tensors(call(*placed(arguments, device, grads)))
    if grads is not None:
        floating = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        assert floating, "no result requires a gradient"
        finite = [result[result.isfinite()].float() for result in floating]
        sum((part * torch.linspace(-1, 1, part.numel(), device=device)).sum() for part in finite).backward()
        results += [leaf.grad for leaf in grads]
    return [r.detach().cpu() if isinstance(r, torch.Tensor) and check_device(r, device) else r for r in results]


def check_device(tensor: torch.Tensor, device: str) -> bool:
    assert tensor.device == torch.device(device), f"a result on {tensor.device}"
    return True


def compare(got: list[Any], expected: list[Any]) -> None:
    assert len(got) == len(expected), f"{len(got)} results for {len(expected)}"
    for mine, theirs in zip(got, expected, strict=True):
        if not isinstance(theirs, torch.Tensor):
            assert mine == theirs, f"{mine} for {theirs}"
            continue
        tolerance = TOLERANCE.get(theirs.dtype, 0.0)
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def check(family: str) -> dict[str, list[str]]:
    torch.manual_seed(11)
    names, faults = set(), []
    for number, (name, arguments) in enumerate(cases.FAMILIES[family]()):
        floating = any(isinstance(t, torch.Tensor) and t.is_floating_point() for t in tensors(arguments))
        both = (False, True) if floating and cases.differentiable(name, arguments) else (False,)
        for backward in both:
            names.add(name)
            try:
                compare(run(name, arguments, DEVICE, backward), run(name, arguments, "cpu", backward))
            except Exception as error:
                faults.append(f"{name} (call {number}{', backward' * backward}): {type(error).__name__}: {error}")
    return {"names": sorted(names), "faults": faults}


if __name__ == "__main__":
    outcome = {family: check(family) for family in cases.FAMILIES}
    assert "gr_ops" in sys.modules, "the operators have not been loaded"
    print(json.dumps(outcome))
