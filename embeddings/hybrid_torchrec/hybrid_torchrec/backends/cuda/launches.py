"""Launches of compiled kernels without Triton's own search for them, which takes the host longer than most kernels run.

Triton reads every argument of every launch to find what it compiled, 0.05 ms with ten of them, and tables that share no
launches need ten launches each. What it looks at is read here in one pass, and what it found the first time is called.
"""

from __future__ import annotations

from typing import Any

import torch
import triton

# The calls inside of Triton are those of these versions; with any other, Triton launches.
TESTED = ("3.6.0",)
FAST = triton.__version__ in TESTED


class _Known:
    """What is known of a kernel: how its arguments are read, and the compiled kernels and last arguments by key."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.readers = tuple(_of_plain if parameter.do_not_specialize else _of_value for parameter in kernel.params)
        self.compiled: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}


_known: dict[int, _Known] = {}  # by id: Triton's own hash of a kernel is slow


def launch(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: dict[str, Any], **options: Any
) -> None:
    """kernel[grid](*arguments, **constants, **options), on the current device and stream.

    `arguments` are all but the constexpr ones, in the kernel's order; those of `constants` and `options` must come in
    the same order in every launch of the kernel.
    """
    if not FAST or not isinstance(kernel, triton.JITFunction):  # or it is the interpreter's
        kernel[grid](*arguments, **constants, **options)
        return
    known = _known.get(id(kernel))
    if known is None:
        known = _known[id(kernel)] = _Known(kernel)
    device = torch.cuda.current_device()
    read = [reader(value) for reader, value in zip(known.readers, arguments)]
    key = (device, *constants.values(), *options.values(), *read)
    found = known.compiled.get(key)
    if found is None:
        made = kernel[grid](*arguments, **constants, **options)
        known.compiled[key] = made, tuple([constants[name] for name in kernel.arg_names[len(arguments) :]])
        return
    made, last = found
    every = (*arguments, *last)
    size = (*grid, 1, 1)[:3]
    stream = torch._C._cuda_getCurrentRawStream(device)
    hooks = triton.knobs.runtime
    about = made.launch_metadata(size, stream, *every), hooks.launch_enter_hook, hooks.launch_exit_hook
    made.run(*size, stream, made.function, made.packed_metadata, *about, *every)


def _of_value(x: Any) -> Any:
    """What Triton compiles a kernel for: types, alignment, and which numbers are 1 or multiples of 16."""
    if isinstance(x, torch.Tensor):
        return x.dtype, x.data_ptr() % 16 == 0
    if type(x) is int:
        return x == 1, x % 16 == 0, -(2**31) <= x < 2**31
    return type(x)


def _of_plain(x: Any) -> Any:
    """Of a number whose value Triton does not look at."""
    return -(2**31) <= x < 2**31 if type(x) is int else type(x)
