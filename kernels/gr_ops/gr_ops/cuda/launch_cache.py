"""Launches compiled kernels without Triton's own search for them, which takes the host longer than most kernels run.

Triton reads every argument to find the compiled kernel: 0.1 ms with forty of them. What it looks at is read here in one
pass, and the kernel that it found the first time is called. The calls inside of Triton are those of tested versions;
with any other, Triton launches.

A kernel that a later call may need (rows of another kind) is compiled in the background from the first call on, and
not when a program is in the midst of its work.

Where another Triton compiles the kernels for Hopper (cubins/), those that are named by their place (kernel.py) are
launched without Triton.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
import triton

from gr_ops.cuda import cubins
from gr_ops.cuda.cubins import store
from gr_ops.cuda.cubins.facts import facts_of
from gr_ops.cuda.cubins.launch import Loaded
from gr_ops.cuda.kernel import Kernel
from gr_ops.cuda.paths import TESTED
from gr_ops.cuda.tma import Tile

FAST = triton.__version__ in {version for _, version in TESTED}
log = logging.getLogger(__name__)
_compiled: dict[tuple[Any, ...], Any] = {}
_ahead: dict[tuple[Any, ...], Future[None]] = {}
_workers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="gr_ops-compile")
Other = Callable[[], tuple[tuple[Any, ...], tuple[Any, ...]]]  # another kernel's key and arguments


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
    other: Other | None = None,
    /,
    **options: int,
) -> None:
    """`arguments`: all, in the kernel's order; `key`: all that the compiled kernel depends on but kernel and device;
    `other`: key and arguments for which it is compiled in the background at the first call."""
    full = (kernel, device, *key)
    found = _compiled.get(full)
    if found is None:
        elsewhere = _elsewhere(kernel)
        if (FAST or elsewhere) and other is not None:
            other_key, others = other()
            _compile_ahead(kernel, grid, other_key, others, device, **options)
        if full in _ahead:
            _ahead[full].exception()  # waits; what failed fails again, below
        if not elsewhere:
            made = _own(kernel)[grid](*arguments, **options)
            if FAST and made is not None:
                _compiled[full] = made
            return
        found = _compiled[full] = Loaded.of(kernel, arguments, options, device)
    x, y, z = (*grid, 1, 1)[:3]
    stream = torch._C._cuda_getCurrentRawStream(device)
    if isinstance(found, Loaded):
        found.launch((x, y, z), stream, arguments)
        return
    hooks = triton.knobs.runtime
    about = (
        found.function,
        found.packed_metadata,
        found.launch_metadata((x, y, z), stream, *arguments),
        hooks.launch_enter_hook,
        hooks.launch_exit_hook,
    )
    found.run(x, y, z, stream, *about, *arguments)


def _elsewhere(kernel: Any) -> bool:
    return isinstance(kernel, Kernel) and cubins.version() is not None


def _own(kernel: Any) -> Any:
    return kernel.load() if isinstance(kernel, Kernel) else kernel


def _stand_in(x: Any) -> Any:
    """The same to the compiler, without memory: an argument, or the tensor that one describes."""
    if isinstance(x, torch.Tensor):
        return x.new_empty(0)
    if isinstance(x, Tile):
        return x._replace(base=_stand_in(x.base))
    if isinstance(getattr(x, "base", None), torch.Tensor):
        x = copy.copy(x)
        x.base = _stand_in(x.base)
    return x


def _compile_ahead(
    kernel: Any,
    grid: tuple[int, ...],
    key: tuple[Any, ...],
    arguments: tuple[Any, ...],
    device: int,
    /,
    **options: int,
) -> None:
    full = (kernel, device, *key)
    if full in _compiled or full in _ahead:
        return
    arguments = tuple([_stand_in(x) for x in arguments])  # to hold no memory meanwhile
    if not _ahead:
        log.info("kernels for rows of one length and for rows of several are compiled, one kind in the background")

    def compile_it() -> None:
        if _elsewhere(kernel):
            store.find(kernel, facts_of(arguments), options)
            return
        with torch.cuda.device(device):
            _own(kernel).warmup(*arguments, grid=grid, **options)

    _ahead[full] = _workers.submit(compile_it)
