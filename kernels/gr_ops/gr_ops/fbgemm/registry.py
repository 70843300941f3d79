"""Which composites there are, and their registration behind fbgemm's names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import torch

MODULES = ("bucketize", "pooled", "products", "ranges", "selection", "structure")
NPU = "PrivateUse1"
NPU_AUTOGRAD = "AutogradPrivateUse1"
# Keys of kernels that serve an NPU tensor some other way: on the host, or as operators of their own.
ELSEWHERE = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "Autograd")

Kernel = Callable[..., Any]
_composites: dict[str, tuple[Kernel, bool]] = {}
_refused: list[str] = []
_library: list[torch.library.Library] = []


def composite(*names: str, differentiable: bool = False) -> Callable[[Kernel], Kernel]:
    """Declares fbgemm's kernel of these names.

    differentiable: autograd goes through the kernel's own operators; else fbgemm_gpu's formula is used, if it has one.
    """

    def declare(kernel: Kernel) -> Kernel:
        _composites.update(dict.fromkeys(names, (kernel, differentiable)))
        return kernel

    return declare


def composites() -> tuple[str, ...]:
    """fbgemm's names whose kernel for NPU tensors is a composite."""
    _declare()
    return tuple(sorted(_composites))


def refused() -> tuple[str, ...]:
    """fbgemm's names that raise for NPU tensors, for want of any kernel."""
    return tuple(_refused)


def register() -> None:
    """Put the composites behind every name that fbgemm_gpu has defined, and an error behind those without a kernel."""
    if _library:
        return
    _declare()
    library = torch.library.Library("fbgemm", "IMPL")  # noqa: TOR901
    _library.append(library)
    defined = {name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("fbgemm::")}
    for name in sorted(defined & _composites.keys()):
        kernel, differentiable = _composites[name]
        if _has_kernel(name, NPU):
            continue
        library.impl(name, kernel, NPU)
        if differentiable:
            library.impl(name, kernel, NPU_AUTOGRAD)
    for name in sorted(name for name in defined if "." not in name):
        if not any(_has_kernel(name, key) for key in (NPU, *ELSEWHERE)):
            library.impl(name, partial(_refuse, name), NPU)
            _refused.append(name)


def _declare() -> None:
    for module in MODULES:
        importlib.import_module(f"gr_ops.fbgemm.{module}")


def _has_kernel(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"fbgemm::{name}", key)


def _refuse(name: str, *_: object, **__: object) -> NoReturn:
    raise NotImplementedError(
        f"fbgemm::{name} cannot run on NPU tensors: there is no kernel of it for NPUs, and fbgemm_gpu has none for the "
        "host; docs/generated/fbgemm-names.md lists what there is"
    )
