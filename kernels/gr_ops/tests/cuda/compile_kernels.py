"""Compiles every kernel for a Hopper GPU, without one: what Triton's interpreter takes, its compiler may refuse."""

import argparse
import importlib
import inspect
import itertools

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

MODULES = ("forward", "backward", "bias_gradients")
FLOATS = dict.fromkeys(("position", "time", "high", "low", "of_position", "of_time", "of_key", "of_near"), "*fp32")
INDICES = dict.fromkeys(("cells", "offsets", "contexts", "targets"), "*i64")
NUMBERS = dict.fromkeys(("group", "window", "whole", "sequences", "side"), "i32")
TYPES = {"scale": "fp32", "alpha": "fp32", **FLOATS, **INDICES, **NUMBERS}
STEPS = ("_stride", "_row", "_head", "_side")
PLAIN = {"BIAS": 0, "MASK": 0, "COUNTS": False, "WINDOW": False, "SCALED": False}
# A problem of each kind; every branch of the kernels is in one of them.
KINDS = (
    PLAIN,
    {**PLAIN, "BIAS": 1, "COUNTS": True, "SCALED": True},
    {**PLAIN, "BIAS": 2, "COUNTS": True, "WINDOW": True},
    {**PLAIN, "BIAS": 2, "MASK": 3},
)


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


def cases(widths: list[int], all_configs: bool) -> list[tuple[triton.JITFunction, dict[str, object], dict[str, int]]]:
    from gr_ops.cuda.tuning import Tuned

    found = []
    for tuned in (x for m in MODULES for x in vars(importlib.import_module(f"gr_ops.cuda.{m}")).values()):
        if not isinstance(tuned, Tuned):
            continue
        # A bias has kernels of its own for its gradient, which then need no other kinds.
        kinds = [
            k for k in KINDS if "BIAS" in tuned.kernel.arg_names or k is KINDS["EACH_ROW" in tuned.kernel.arg_names]
        ]
        for width, config in itertools.product(widths, tuned.configs if all_configs else tuned.configs[-1:]):
            own = {"N": 4, "A": width, "V": width, "AP": width, "VP": width, "FAST": True, "DOT": "tf32x3", "T": 128,
                   "EACH_ROW": False, "EACH_HEAD": True, "K": 64, **config.kwargs}  # fmt: skip
            options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
            found += [(tuned.kernel, own | kind, options) for kind in kinds]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[32])
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--all", action="store_true", help="every config, in place of the last of each kernel")
    options = parser.parse_args()
    chosen = cases(options.widths, options.all)
    for kernel, constants, settings in chosen:
        compiled = compile_one(kernel, constants | {"FAST": options.dtype == "bf16"}, options.dtype, **settings)
        if options.all:
            print(kernel.fn.__name__, constants, settings, f"{compiled.metadata.shared} bytes shared", flush=True)
    print(f"{len(chosen)} kernels compiled")


if __name__ == "__main__":
    main()
