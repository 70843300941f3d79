"""Operators whose results are not close to the CPU's, mostly in half precision: how far both are from float64, over
all samples of PyTorch's database, forward and backward. Prints, by operator and data type, the sums for the NPU and the
CPU. Of products of matrices forward only, as torch_npu's gradients are wrong, and of strided arguments too. Of Fourier
transforms, which torch_npu makes of products, the CPU's are those of the same products."""

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
    "nn.functional.conv1d": HALVES,
    "nn.functional.conv2d": HALVES,
    "nn.functional.conv_transpose1d": HALVES,
    "nn.functional.conv_transpose2d": HALVES,
    "nn.functional.scaled_dot_product_attention": ("float32",),
}
PRODUCTS = dict.fromkeys(("matmul", "__rmatmul__"), (*HALVES, "float32"))
TRANSFORMS = ("fft.hfft2", "fft.rfft2")


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


def products(values: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    """The transform over `dims` as products with its matrices, in the precision of `values`."""
    for dim in dims:
        turns = torch.arange(values.shape[dim], dtype=torch.float64)
        matrix = torch.exp(-2j * torch.pi * (turns[:, None] * turns % len(turns)) / len(turns)).to(values.dtype)
        values = (values.movedim(dim, -1) @ matrix).movedim(-1, dim)
    return values


def transforms(info: Any) -> list[float]:
    total = [0.0, 0.0]
    for sample in cases.samples(info, cases.Case(info.name, "float32"))[0]:
        if set(sample.kwargs) - {"dim"}:  # of another size or norm
            continue
        given = checks.Arguments(sample.input.detach(), sample.args, sample.kwargs)
        dims = sample.kwargs.get("dim", (-2, -1))
        dims = dims if isinstance(dims, tuple) else (dims,)
        whole = given.input.to(torch.complex64)
        if info.name == "fft.hfft2":  # what stands for its mirror image is written out
            size = whole.shape[dims[-1]]
            mirror = whole.narrow(dims[-1], 1, size - 2)
            for dim in dims:
                mirror = mirror.flip(dim)
                mirror = mirror if dim == dims[-1] else mirror.roll(1, dim)
            whole = torch.cat([whole, mirror.conj()], dims[-1])
        on_cpu = products(whole, dims)
        exact = checks.forward(info, sample, checks.Arguments(*wide(given.tree())))
        on_cpu = on_cpu.real if info.name == "fft.hfft2" else on_cpu.narrow(dims[-1], 0, exact.shape[dims[-1]])
        on_npu = checks.forward(info, sample, given.moved()).cpu()
        total[0] += float((on_npu.to(exact.dtype) - exact).norm())
        total[1] += float((on_cpu.to(exact.dtype) - exact).norm())
    return total


def distances(info: Any, dtype: str, *, product: bool) -> list[float]:
    total = [0.0, 0.0]
    found, differentiable = cases.samples(info, cases.Case(info.name, dtype))
    for sample in [*found, *(one.noncontiguous() for one in found if product)]:
        if sample.kwargs.get("dropout_p"):  # each device draws its own
            continue
        given = checks.Arguments(sample.input, sample.args, sample.kwargs)
        for check in (checks.forward, *([checks.backward] if differentiable and not product else [])):
            try:
                exact = check(info, sample, checks.Arguments(*wide(copy.deepcopy(given.tree()))))
                on_cpu = check(info, sample, given if product else checks.Arguments(*copy.deepcopy(given.tree())))
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
    return total


def of_all(infos: dict[str, Any], operators: dict[str, tuple[str, ...]], *, product: bool) -> dict[str, list[float]]:
    return {
        f"{name} {dtype}": distances(infos[name], dtype, product=product)
        for name, dtypes in operators.items()
        for dtype in dtypes
    }


def main() -> None:
    infos = cases.database()
    found = {
        "operators": of_all(infos, OPERATORS, product=False),
        "products": of_all(infos, PRODUCTS, product=True),
        "transforms": {name: transforms(infos[name]) for name in TRANSFORMS},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
