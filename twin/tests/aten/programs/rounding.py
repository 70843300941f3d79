"""Operators whose results are not close to the CPU's, mostly in half precision: how far both are from float64, over
all samples of PyTorch's database, forward and backward. Prints, by operator and data type, the sums for the NPU and the
CPU."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch_npu  # noqa: F401
from torch.utils._pytree import tree_flatten, tree_map

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "twin/python"))
from ascend_twin.conformance import cases, checks, transfer  # noqa: E402

HALVES = ("float16", "bfloat16")
OPERATORS = {
    "nn.functional.batch_norm": HALVES,
    "nn.functional.instance_norm": HALVES,
    "nn.functional.layer_norm": HALVES,
    "native_batch_norm": HALVES,
    "_batch_norm_with_update": HALVES,
    "logspace": ("float16",),
    "nn.functional.conv_transpose2d": HALVES,
    "nn.functional.scaled_dot_product_attention": ("float32",),
}


def wide(tree: Any) -> Any:
    """In float64, data types that are named too."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return leaf.detach().double().requires_grad_(leaf.requires_grad)
        return torch.float64 if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf

    return tree_map(one, tree)


def distance(found: Any, exact: Any) -> float:
    pairs = zip(tree_flatten(found)[0], tree_flatten(exact)[0])
    return sum(
        float((one.detach().cpu().double() - e.detach().double()).nan_to_num(0, 0, 0).norm())
        for one, e in pairs
        if isinstance(one, torch.Tensor) and one.is_floating_point() and one.shape == e.shape
    )


def main() -> None:
    infos, sums = cases.database(), {}
    for name, dtypes in OPERATORS.items():
        info = infos[name]
        for dtype in dtypes:
            total = [0.0, 0.0]
            found, differentiable = cases.samples(info, cases.Case(name, dtype))
            for sample in found:
                if sample.kwargs.get("dropout_p"):  # each device draws its own
                    continue
                given = checks.Arguments(sample.input, sample.args, sample.kwargs)
                for check in (checks.forward, *([checks.backward] if differentiable else [])):
                    try:
                        exact = check(info, sample, checks.Arguments(*wide(copy.deepcopy(given.tree()))))
                        on_cpu = check(info, sample, checks.Arguments(*copy.deepcopy(given.tree())))
                        tensors = any(isinstance(leaf, torch.Tensor) for leaf in tree_flatten(given.tree())[0])
                        moved = given.moved()
                        if tensors:
                            on_npu = check(info, sample, moved)
                        else:
                            with transfer.NPU:
                                on_npu = check(info, sample, moved)
                    except (RuntimeError, NotImplementedError, transfer.Mismatch):
                        continue  # not on the CPU, or a refusal of torch_npu's
                    total[0] += distance(on_npu, exact)
                    total[1] += distance(on_cpu, exact)
            sums[f"{name} {dtype}"] = total
    print(json.dumps(sums))


if __name__ == "__main__":
    main()
