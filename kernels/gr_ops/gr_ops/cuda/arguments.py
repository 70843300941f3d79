"""The arguments of an HSTU operator by name, and what is asked of them before a kernel runs."""

from __future__ import annotations

import os
from typing import Any

import torch

META = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)
# The documents write the same argument in two ways.
NAMES = {
    "attnBias": "attn_bias",
    "maskType": "mask_type",
    "maxSeqLen": "max_seq_len",
    "maxSeqLenK": "max_seq_len_k",
    "siluScale": "silu_scale",
    "seqOffset": "seq_offset",
    "seqOffsetK": "seq_offset_k",
}
# Of operators that have no such argument.
ABSENT = {
    "layout": "jagged",
    "mask_type": 0,
    "max_seq_len_k": 0,
    "alpha": 1.0,
    "target_group_size": 0,
    "max_attn_len": 0,
    "min_full_attn_seq_len": 0,
    "deterministic": False,
    "window_size": -1,
    "bias_grad": True,
}


class Arguments:
    """`given["attn_bias"]`: None where an operator has no such argument and ABSENT no value for it."""

    def __init__(self, op: Any, values: tuple[Any, ...]) -> None:
        self.op = op
        self._values = dict(ABSENT)
        schema = op._schema.arguments
        # The dispatcher leaves out trailing arguments that have their default.
        self.values = (*values, *(x.default_value for x in schema[len(values) :]))
        for argument, value in zip(schema, self.values):
            self._values[NAMES.get(argument.name, argument.name)] = value
        if self["offset_list"] is not None:
            self._values["seq_offset"] = self["offset_list"]

    def __getitem__(self, name: str) -> Any:
        return self._values.get(name)

    def results(self, look: bool = True) -> Any:
        """Empty ones, by the Meta kernel, which raises where an argument's shape, type or value is wrong."""
        made = self.op.redispatch(META, *self.values)
        if look:
            self.look_if_asked()
        return made

    def look_if_asked(self) -> None:
        """What offsets and counts hold is looked at where it is on the host, where the longest row must be found
        anyway, and with MXREC_CHECK=1."""
        on_host = not isinstance(self["seq_offset"], torch.Tensor)
        more_keys = self["seq_offset_k"] is not None or self["kv_cache"] is not None
        unknown = not self["max_seq_len"] or (more_keys and not self["max_seq_len_k"])
        if self["layout"] == "jagged" and (on_host or unknown or os.environ.get("MXREC_CHECK") == "1"):
            self.look_inside()

    def look_inside(self) -> None:
        """Raises what the CPU's operator does of offsets and counts: it gets them with tokens of no heads."""
        if any(isinstance(x, torch.Tensor) and x.dim() == 3 and not x.shape[1] for x in self.values):
            return  # these are tokens of no heads
        self.op(*(_without_heads(x) if isinstance(x, torch.Tensor) else x for x in self.values))


def _without_heads(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 1:
        return x.cpu()
    if x.dim() == 4:  # a bias or a mask; its size is that of the longest row at least
        return torch.empty(1, dtype=x.dtype).expand(1, 1, *x.shape[2:])
    *sizes, _, width = x.shape
    return torch.empty(*sizes, 0, width, dtype=x.dtype)
