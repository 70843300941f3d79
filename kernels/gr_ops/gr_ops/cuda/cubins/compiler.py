"""Compiles one kernel, in a process whose Triton is the one that GR_OPS_TRITON names. Run by store.py.

In: one line of JSON, the kernel's module and name, its arguments' facts, options of the launch. Out: one line of JSON,
the roles of its parameters, the cubin in base64, the name of its function, its threads, its shared memory, what the
driver is to make of each tile, and where each argument lies: PTX says so. PyTorch and the library of gr_ops are not
loaded, which takes longer than a kernel.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
import sys
from typing import Any

from gr_ops.cuda.cubins.roles import ALIGNMENT_FREE, CONSTANT, FREE, SPECIALIZED, Fact, needed

CAPABILITY = 90
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(?:b|u|s|f)(\d+)\s+[^,\[\n]*?\w+_param_\d+(?:\[(\d+)\])?")


class Target:
    """In place of Triton's driver, which wants a GPU."""

    def __init__(self) -> None:
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", CAPABILITY, 32)

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


class Tensor:
    """As an argument, to Triton: a type and an address."""

    def __init__(self, dtype: str, aligned: bool) -> None:
        self.dtype, self.address = dtype, 16 if aligned else 1

    def data_ptr(self) -> int:
        return self.address


def stand_in(fact: Fact) -> Any:
    kind, *about = fact
    if kind == "tensor":
        return Tensor(*about)
    return _tile(*about) if kind == "tile" else about[0]


def _tile(dtype: str, block: list[int]) -> Any:
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    layout = gl.NVMMASharedLayout.get_default_for(block, getattr(gl, dtype))
    shape = [1024] * len(block)
    return TensorDescriptor(Tensor(dtype, True), shape, [1024] * (len(block) - 1) + [1], block, layout)


def roles_of(kernel: Any) -> list[str]:
    def role(p: Any) -> str:
        if p.is_constexpr:
            return CONSTANT
        return FREE if p.do_not_specialize else ALIGNMENT_FREE if p.do_not_specialize_on_alignment else SPECIALIZED

    return [role(p) for p in kernel.params]


def places(ptx: str, name: str) -> list[tuple[int, int]]:
    """Offset and bytes of each parameter of the function."""
    begin = ptx.index(f".entry {name}(")
    found, end = [], 0
    for align, bits, count in PARAMETER.findall(ptx[begin : ptx.index(")", begin + len(f".entry {name}("))]):
        size = int(bits) // 8 * int(count or 1)
        step = int(align or size)
        end = -(-end // step) * step
        found.append((end, size))
        end += size
    return found


def compile_kernel(module: str, name: str, facts: list[Fact], options: dict[str, int]) -> dict[str, Any]:
    import triton

    triton.runtime.driver.set_active(Target())
    kernel = getattr(importlib.import_module(f"gr_ops.cuda.{module}"), name)
    roles = roles_of(kernel)
    arguments = [stand_in(fact) for fact in needed(facts, roles)]
    made = kernel.warmup(*arguments, grid=(1,), **options)
    about = made.metadata
    scratch = {
        "global": about.global_scratch_size,
        "profile": about.profile_scratch_size,
        "clusters": about.num_ctas - 1,
    }
    if any(scratch.values()) or about.launch_cooperative_grid or about.launch_pdl:
        raise SystemExit(f"{module}.{name} wants of its launch what cubins/launch.py does not do: {scratch}")
    return {
        "roles": roles,
        "cubin": base64.b64encode(made.asm["cubin"]).decode(),
        "function": about.name,
        "threads": about.num_warps * 32,
        "shared": about.shared,
        "types": list(made.src.signature.values()),
        "tiles": [{key: each[key] for key in ("swizzle", "block_size")} for each in about.tensordesc_meta or ()],
        "places": places(made.asm["ptx"], about.name),
        "triton": triton.__version__,
    }


def main() -> None:
    out = sys.stdout
    sys.stdout = sys.stderr  # of what Triton may say
    print(json.dumps(compile_kernel(**json.loads(sys.stdin.readline()))), file=out)


if __name__ == "__main__":
    main()
