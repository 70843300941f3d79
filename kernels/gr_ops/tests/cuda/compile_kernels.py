"""Compiles every kernel for a Hopper GPU, without one: what Triton's interpreter takes, its compiler may refuse."""

import argparse
import importlib
import inspect
import itertools
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

MODULES = ("forward", "backward", "bias_gradients")
FLOATS = dict.fromkeys(("position", "time", "high", "low", "of_position", "of_time", "of_key", "of_near"), "*fp32")
INDICES = dict.fromkeys(
    ("cells", "offsets", "key_offsets", "contexts", "targets", "page_offsets", "page_ids", "last_page"), "*i64"
)
NUMBERS = dict.fromkeys(("group", "window", "min_full", "sequences"), "i32")
TYPES = {"scale": "fp32", "alpha": "fp32", **FLOATS, **INDICES, **NUMBERS}
STEPS = ("_stride", "_side")
# A problem of each kind; every branch of the kernels is in one of them.
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"bias": 1, "segments": True, "scaled": True},
    {"bias": 2, "bias_heads": 1, "segments": True, "window": 1},
    {"bias": 2, "bias_heads": 4, "bias_rows": True, "mask": 3, "mask_heads": 1, "mask_rows": True},
    {"varlen": True},
    {"split": True},
    {"varlen": True, "page_size": 32, "segments": True},
)
# Of the kernels that need no others: those of a bias have its kinds alone, and pages are of the forward pass.
OWN = {"diagonals": KINDS[1:2], "off_diagonals": KINDS[1:2], "dense": KINDS[2:4], "forward": KINDS}


def type_of(name: str, dtype: str) -> str:
    return TYPES.get(name, "i32" if name.endswith(STEPS) else f"*{dtype}")


def compile_one(
    kernel: triton.JITFunction, constants: dict[str, object], dtype: str, **options: int
) -> triton.compiler.CompiledKernel:
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    types = {name: type_of(name, dtype) for name in kernel.arg_names}
    if "constexprs" in inspect.signature(ASTSource).parameters:  # Triton 3.3 and later
        signature = types | dict.fromkeys(constants, "constexpr")
    else:
        signature = {name: kind for name, kind in types.items() if name not in constants}
    return triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 90, 32), options=options)


def cases(
    widths: list[int], all_configs: bool, fast: bool
) -> list[tuple[triton.JITFunction, dict[str, object], dict[str, int]]]:
    from gr_ops.cuda.specialization import Specialization
    from gr_ops.cuda.tuning import Tuned

    found = []
    for tuned in (x for m in MODULES for x in vars(importlib.import_module(f"gr_ops.cuda.{m}")).values()):
        if not isinstance(tuned, Tuned):
            continue
        kinds = OWN.get(tuned.kernel.fn.__name__, KINDS[:6])
        for width, config in itertools.product(widths, tuned.configs if all_configs else tuned.configs[-1:]):
            options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
            for kind in kinds:
                known = Specialization(4, width, width, width, width, fast=fast, **kind)
                found.append((tuned.kernel, {"S": known, "T": 128, "K": 64, **config.kwargs}, options))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[32])
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--all", action="store_true", help="every config, in place of the last of each kernel")
    options = parser.parse_args()
    chosen = cases(options.widths, options.all, options.dtype == "bf16")
    for kernel, constants, settings in chosen:
        compiled = compile_one(kernel, constants, options.dtype, **settings)
        if options.all:
            print(kernel.fn.__name__, constants, settings, f"{compiled.metadata.shared} bytes shared", flush=True)
    print(f"{len(chosen)} kernels compiled")


if __name__ == "__main__":
    main()
