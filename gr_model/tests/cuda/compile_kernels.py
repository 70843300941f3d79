"""Compiles every kernel for a Hopper GPU, without one: what Triton's interpreter takes, its compiler may refuse."""

import argparse
import inspect
import itertools

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gr_model import triton_kernels

TABLES = dict.fromkeys(("position", "time", "high", "low", "of_position", "of_time"), "*fp32")
TYPES = {"cells": "*i64", "offsets": "*i64", "scale": "fp32", **TABLES}


def compile_one(
    kernel: triton.JITFunction, constants: dict[str, object], **options: int
) -> triton.compiler.CompiledKernel:
    types = {name: TYPES.get(name, "i32" if name.endswith("stride") else "*bf16") for name in kernel.arg_names}
    if "constexprs" in inspect.signature(ASTSource).parameters:  # Triton 3.3 and later
        signature = types | dict.fromkeys(constants, "constexpr")
    else:
        signature = {name: kind for name, kind in types.items() if name not in constants}
    return triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 90, 32), options=options)


def cases(widths: list[int], all_configs: bool) -> list[tuple[triton.JITFunction, dict[str, object], dict[str, int]]]:
    found = []
    for name, tuned in vars(triton_kernels).items():
        if not isinstance(tuned, triton_kernels.Autotuner):
            continue
        for width, config in itertools.product(widths, tuned.configs if all_configs else tuned.configs[-1:]):
            own = {"N": 4, "A": width, "V": width, "FAST": True, **config.kwargs}
            more = (
                [{"T": 128, "K": triton_kernels.BIAS_BLOCK}]
                if name == "_backward_bias"
                else [{"BIAS": False}, {"BIAS": True}]
            )
            options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
            found += [(tuned.fn, own | choice, options) for choice in more]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[32])
    parser.add_argument("--all", action="store_true", help="every config, in place of the last of each kernel")
    options = parser.parse_args()
    chosen = cases(options.widths, options.all)
    for kernel, constants, settings in chosen:
        compiled = compile_one(kernel, constants, **settings)
        if options.all:
            print(kernel.fn.__name__, constants, settings, f"{compiled.metadata.shared} bytes shared", flush=True)
    print(f"{len(chosen)} kernels compiled")


if __name__ == "__main__":
    main()
