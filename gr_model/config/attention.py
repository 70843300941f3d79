"""The registry of attention implementations, and the values of `model.attention`.

To add an implementation: a line here; its module in gr_model/model/attention with a class of the interface
`BatchAttention` (gr_model/model/attention/base.py); a line in the table of docs/training.md if users may choose it.
Nothing of this needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Implementation:
    """A class of gr_model.model.attention, by name, so that no config imports torch."""

    module: str  # in gr_model/model/attention
    class_name: str
    summary: str
    selectable: bool = True  # whether it is a value of `model.attention`; else it stands in for one


IMPLEMENTATIONS = {
    "plain": Implementation("plain", "PlainAttention", "PyTorch, tile by tile; the reference"),
    "fused": Implementation("fused", "FusedAttention", "the operators torch.ops.mxrec.hstu_* of gr_ops"),
    "blocked": Implementation("blocked", "BlockedAttention", "PyTorch, calculated again in the backward pass"),
    "kernels": Implementation(
        "kernels", "KernelAttention", "the operators on CUDA and NPU that make the bias", selectable=False
    ),
}
CHOICES = tuple(name for name, implementation in IMPLEMENTATIONS.items() if implementation.selectable)
