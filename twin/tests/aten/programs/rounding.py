"""What the table of conformance may call a rounding: how far the NPU's and the CPU's results are from float64, over all
samples of PyTorch's database, in every check whose results need not be close by the rules of reasons.py. Prints, by
operator and data type, then by check: the sum for the NPU, that for the CPU, and the number of samples. Of Fourier
transforms, which torch_npu makes of products of matrices, the CPU's are those of such products (fourier.py)."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import distance
import torch
import torch_npu  # noqa: F401
from fourier import Products
from torch.utils._pytree import tree_flatten, tree_map

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "twin/python"))
from ascend_twin.conformance import cases, checks, reasons, tally, transfer  # noqa: E402

CLOSE = "Tensor-likes are not close!"
CHECKS = {
    "forward": checks.forward,
    "backward": checks.backward,
    "strided": checks.forward,
    "in place": checks.in_place,
    "out": checks.out,
}
assert tuple(CHECKS) == tally.CHECKS


def wide(tree: Any, *, integers: bool) -> Any:
    """In float64, data types that are named too; tensors of integers where `integers`."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or integers):
            return leaf.detach().double().requires_grad_(leaf.requires_grad)
        return torch.float64 if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf

    return tree_map(one, tree)


class Measured:
    """One operator at one data type."""

    def __init__(self, name: str, info: Any, dtype: str) -> None:
        self.name, self.info, self.dtype = name, info, dtype
        self.fourier = name.startswith("fft.")

    def cause(self, error: str, check: str) -> str:
        return reasons.explain(self.name, self.dtype, error, check)[0]

    def checks(self) -> list[str]:
        """Those that a rule calls a rounding."""
        return [check for check in CHECKS if self.cause(CLOSE, check) == reasons.ROUNDING]

    def __call__(self) -> dict[str, tuple[float, float, int]]:
        samples, differentiable = cases.samples(self.info, cases.Case(self.name, self.dtype))
        found = {}
        for check in self.checks():
            if (
                (check == "backward" and not differentiable)
                or (check == "in place" and self.info.get_inplace() is None)
                or (check == "out" and not self.info.supports_out)
            ):
                continue
            given = [sample.noncontiguous() for sample in samples] if check == "strided" else samples
            pairs = [pair for sample in given if (pair := self.of(check, sample))]
            found[check] = (sum(npu for npu, _ in pairs), sum(cpu for _, cpu in pairs), len(pairs))
        return found

    def of(self, check: str, sample: Any) -> tuple[float, float] | None:
        """For the NPU and the CPU; nothing where they are not compared."""
        if sample.kwargs.get("dropout_p"):  # each device draws its own
            return None
        tree = (sample.input, sample.args, sample.kwargs)
        moved = checks.Arguments(*tree).moved()
        exact_arguments = checks.Arguments(*wide(copy.deepcopy(tree), integers=self.fourier))
        try:
            on_cpu = CHECKS[check](self.info, sample, checks.Arguments(*copy.deepcopy(tree)))
        except Exception:
            return None  # not on the CPU
        on_npu = self.of_npu(check, sample, moved, on_cpu)
        if on_npu is None:
            return None
        if self.fourier:
            on_cpu = CHECKS[check](Products(self.name), sample, checks.Arguments(*copy.deepcopy(tree)))
        return distance.of_both(on_npu, on_cpu, CHECKS[check](self.info, sample, exact_arguments))

    def of_npu(self, check: str, sample: Any, moved: checks.Arguments, on_cpu: Any) -> Any:
        """The result, or nothing where it has not the CPU's form by a cause that is known and is no rounding."""
        factory = not any(isinstance(leaf, torch.Tensor) for leaf in tree_flatten(moved.tree())[0])
        try:
            if factory:
                with transfer.NPU:
                    found = CHECKS[check](self.info, sample, moved)
            else:
                found = CHECKS[check](self.info, sample, moved)
            transfer.compare(found, on_cpu, values=False)
        except Exception as error:
            if self.cause(str(error), check) in (reasons.TWIN, reasons.ROUNDING):
                raise
            return None
        return found


def main() -> None:
    found = {}
    for name, info in cases.database().items():
        for dtype in cases.dtypes_of(info, cases.DTYPES):
            measured = Measured(name, info, dtype)
            if measured.checks():
                found[f"{name} {dtype}"] = measured()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
