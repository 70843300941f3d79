"""Attention by the operators of gr_ops that make the bias themselves, and take a batch as it is.

It stands in for fused attention on CUDA and NPU; on a CPU that one calls it for layers that fit (fused.py).
"""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import torch

from gr_model.config import ModelConfig
from gr_model.model.attention.base import CAUSAL, AttentionLayer, BatchAttention
from gr_model.model.attention.time_buckets import time_cells
from gr_model.model.sequences import Sequences


class KernelAttention(BatchAttention):
    def __init__(self, sequences: Sequences, config: ModelConfig) -> None:
        self.sequences, self.time_buckets = sequences, config.time_buckets

    @staticmethod
    def fallback(sequences: Sequences) -> str | None:
        return None if available(sequences.times_L.device.type) else "blocked"

    def attend(
        self, q_LNA: torch.Tensor, k_LNA: torch.Tensor, v_LNV: torch.Tensor, layer: AttentionLayer
    ) -> torch.Tensor:
        sequences, operators = self.sequences, torch.ops.mxrec
        offsets, longest = sequences.offsets_B1, sequences.longest
        contexts, targets = (None, None) if sequences.causal else (sequences.contexts_B, sequences.targets_B)
        masks = (offsets, contexts, targets, 1)
        if layer.bias is None:
            out = operators.hstu_jagged(q_LNA, k_LNA, v_LNV, None, None, CAUSAL, longest, layer.scale, *masks)
        else:
            cells = time_cells(self.time_buckets, q_LNA.device)
            bias = (layer.bias.position, layer.bias.time, sequences.times_L, cells)
            out = operators.hstu_relative(q_LNA, k_LNA, v_LNV, *bias, *masks, longest, layer.scale)
        flat: torch.Tensor = out.flatten(1)
        return flat

    def in_one_call(self, layer: AttentionLayer) -> dict[str, Any]:
        common = one_call(self.sequences, layer.scale)
        if layer.bias is None:
            return common
        times_L, tables = self.sequences.times_L, (layer.bias.position, layer.bias.time)
        return {**common, "tables": tables, "times_L": times_L, "cells": time_cells(self.time_buckets, times_L.device)}


def one_call(sequences: Sequences, scale: float) -> dict[str, Any]:
    """BatchAttention.in_one_call of a whole batch without a bias."""
    contexts, targets = (None, None) if sequences.causal else (sequences.contexts_B, sequences.targets_B)
    masks = {"contexts": contexts, "targets": targets}
    return {"offsets": sequences.offsets_B1, **masks, "longest": sequences.longest, "scale": scale, "tables": ()}


@cache
def available(device: str) -> bool:
    """Whether there are operators for this kind of device: those of gr_ops, for CUDA if Triton is installed."""
    if device == "cuda":
        return hasattr(torch.ops.mxrec, "hstu_relative") and importlib.util.find_spec("triton") is not None
    key = {"npu": "PrivateUse1"}.get(device)
    return key is not None and torch._C._dispatch_has_kernel_for_dispatch_key("mxrec::hstu_relative", key)
