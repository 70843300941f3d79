"""One launch of a kernel of the layer, through the cache of compiled kernels."""

from __future__ import annotations

from typing import Any

import torch

from gr_ops.cuda import launch_cache


def launch(kernel: Any, programs: int, values: tuple[Any, ...], **options: int) -> None:
    """`values`: all arguments in the kernel's order, constants among them."""
    constants = tuple(value for name, value in zip(kernel.arg_names, values, strict=True) if name.isupper())
    device: torch.device = values[0].device
    key = (launch_cache.of_values(values), constants, *options.values())
    launch_cache.launch(kernel, (programs,), key, values, device.index or 0, **options)
