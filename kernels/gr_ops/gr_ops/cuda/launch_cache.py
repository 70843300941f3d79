"""Launches compiled kernels without Triton's own search for them, which takes the host longer than most kernels run.

Triton reads every argument to find the compiled kernel: 0.1 ms with forty of them. What it looks at is read here in one
pass, and the kernel that it found the first time is called. The calls inside of Triton are those of tested versions;
with any other, Triton launches.
"""

from __future__ import annotations

from typing import Any

import torch
import triton

from gr_ops.cuda.paths import TESTED

FAST = triton.__version__ in {version for _, version in TESTED}
_compiled: dict[tuple[Any, ...], Any] = {}


def of_values(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What Triton compiles a kernel for: types, 16-byte alignment, and which numbers are 1 or multiples of 16."""
    return tuple([_of_value(x) for x in arguments])


def _of_value(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.dtype, x.data_ptr() % 16
    if type(x) is int:
        return x == 1, x % 16 == 0, -(2**31) <= x < 2**31
    return type(x)


def launch(
    kernel: Any,
    grid: tuple[int, ...],
    key: tuple[Any, ...],
    arguments: tuple[Any, ...],
    device: int,
    **options: int,
) -> None:
    """`arguments`: all, in the kernel's order; `key`: all that the compiled kernel depends on but kernel and device."""
    full = (kernel, device, *key)
    found = _compiled.get(full)
    if found is None:
        made = kernel[grid](*arguments, **options)
        if FAST and made is not None:
            _compiled[full] = made
        return
    size = (*grid, 1, 1)[:3]
    stream = torch._C._cuda_getCurrentRawStream(device)
    hooks = triton.knobs.runtime
    about = (
        found.function,
        found.packed_metadata,
        found.launch_metadata(size, stream, *arguments),
        hooks.launch_enter_hook,
        hooks.launch_exit_hook,
    )
    found.run(*size, stream, *about, *arguments)
