"""The operators of CUDA tensors: a line of OPERATORS each.

A line says where an operator's implementation is: a function of the operator itself and its arguments, by position. Its
module is imported by the first call, so that importing gr_ops imports no Triton. The schemas, autograd and what raises
are those of the other devices (csrc): an implementation has the results made, and the arguments checked, by redispatch
to the Meta kernel (see hstu.py).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

OPERATORS = {
    "hstu_dense": "gr_ops.cuda.hstu:forward",
    "hstu_dense.tensor": "gr_ops.cuda.hstu:forward",
    "hstu_dense_backward": "gr_ops.cuda.hstu:backward",
    "hstu_dense_backward.tensor": "gr_ops.cuda.hstu:backward",
    "hstu_jagged.equal": "gr_ops.cuda.hstu:forward",
    "hstu_jagged_backward.equal": "gr_ops.cuda.hstu:backward",
    "hstu_varlen": "gr_ops.cuda.hstu:forward",
    "hstu_paged": "gr_ops.cuda.hstu:forward",
    "hstu_gradients": "gr_ops.cuda.hstu:backward",  # what autograd calls for all of them
    "hstu_relative": "gr_ops.cuda.hstu_relative:forward",
    "hstu_relative_gradients": "gr_ops.cuda.hstu_relative:backward",
    "hstu_projection": "gr_ops.cuda.layer.operators:projection",
    "hstu_projection_backward": "gr_ops.cuda.layer.operators:projection_backward",
    "hstu_gated_output": "gr_ops.cuda.layer.operators:gated_output",
    "hstu_gated_output_backward": "gr_ops.cuda.layer.operators:gated_output_backward",
    "hstu_keep": "gr_ops.cuda.layer.operators:keep",
}


def register(device: str, operators: Mapping[str, str] = OPERATORS, namespace: str = "mxrec") -> torch.library.Library:
    """For a key of the dispatcher; they stay as long as what is returned."""
    library = torch.library.Library(namespace, "IMPL")
    for name, place in operators.items():
        library.impl(name, _implementation(namespace, name, place), device)
    return library


def _implementation(namespace: str, name: str, place: str) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    module, _, function = place.partition(":")

    def call(*arguments: Any) -> Any:
        op = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
        return getattr(importlib.import_module(module), function)(op, *arguments)

    return call


_registered = register("CUDA")
