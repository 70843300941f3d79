"""Compiles every kernel for a Hopper GPU, without one: what Triton's interpreter takes, its compiler may refuse."""

import inspect
import itertools
from types import ModuleType

import triton
import triton.language as tl
from hybrid_torchrec.backends.cuda import map_kernels, row_kernels, sighting_kernels, update_kernels
from hybrid_torchrec.kinds import OPTIMIZERS
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TYPES = {
    **dict.fromkeys(["slots", "ids", "sources", "parts", "starts", "offsets", "bags", "gradient_rows"], "*i64"),
    **dict.fromkeys(["new_ids", "new_slots", "old", "buckets", "moved", "values"], "*i64"),
    **dict.fromkeys(["keys", "sums", "absent_counts"], "*i32"),
    **dict.fromkeys(["out", "factors", "gradients", "heads", "tails"], "*fp32"),
    **dict.fromkeys(["count", "bits", "step", "version"], "i32"),
    **dict.fromkeys(["mask", "old_count"], "i64"),
    "numbers": "*fp64",
}
CHOICES = {
    **dict.fromkeys(["GROUPED", "COUNT_HITS", "CLAMP", "COUNTED", "MEAN", "WEIGHTED", "POOLED", "VERSIONED"], (True,)),
    "DECAYS": (1, 2),
    "DTYPE": (tl.bfloat16,),
    **dict.fromkeys(["D", "FIRST_WIDTH"], (120,)),
    **dict.fromkeys(["COLUMNS", "BLOCK"], (128,)),
    **dict.fromkeys(["ROWS", "CHUNK"], (8,)),
    "SPAN": (16,),
    "SECOND_WIDTH": (1,),
}
KINDS = {
    "start": (1, 2, 3),
    "update_runs": tuple(kind.number for kind in OPTIMIZERS.values()),
    "update_long_runs": tuple(kind.number for kind in OPTIMIZERS.values() if kind.whole_rows or kind.name == "lion"),
}


def kernels(module: ModuleType) -> list[triton.JITFunction]:
    """Those that are launched: their arguments have types here."""
    own = (value for name, value in vars(module).items() if isinstance(value, triton.JITFunction) and name[0] != "_")
    return [value for value in own if value.fn.__module__ == module.__name__]


def compile_one(kernel: triton.JITFunction, constants: dict[str, object]) -> None:
    types = {name: TYPES.get(name, "fp32") for name in kernel.arg_names}
    if kernel is row_kernels.start:
        types["keys"] = "*i64"
    if "constexprs" in inspect.signature(ASTSource).parameters:  # Triton 3.3 and later
        signature = types | dict.fromkeys(constants, "constexpr")
    else:
        signature = {name: kind for name, kind in types.items() if name not in constants}
    triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


def main() -> None:
    done = 0
    for kernel in itertools.chain(*map(kernels, (map_kernels, row_kernels, sighting_kernels, update_kernels))):
        choices = {name: CHOICES[name] for name in kernel.arg_names if name in CHOICES}
        if "KIND" in kernel.arg_names:
            choices["KIND"] = KINDS[kernel.fn.__name__]
        for values in itertools.product(*choices.values()):
            compile_one(kernel, dict(zip(choices, values, strict=True)))
            done += 1
    print(f"{done} kernels compiled")


if __name__ == "__main__":
    main()
