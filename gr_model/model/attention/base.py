"""What an implementation of attention is, and which one calculates a batch.

Pointwise attention of HSTU: SiLU(q k + bias) v / max_tokens. Shape suffixes as in hstu.py.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any, Protocol

import torch

from gr_model.config import ModelConfig
from gr_model.config.attention import IMPLEMENTATIONS
from gr_model.model.attention.relative_bias import RelativeBias
from gr_model.model.sequences import Sequences

CAUSAL = 0  # the operators' mask type: keys up to the query, and the rule of contextual tokens and targets


class AttentionLayer(Protocol):
    """What a layer brings: its learned bias, and the scale of the output."""

    bias: RelativeBias | None
    scale: float

    def weights(
        self, scores_RNQK: torch.Tensor, bias_RQK: torch.Tensor | None, seen_RQK: torch.Tensor
    ) -> torch.Tensor: ...


class BatchAttention(ABC):
    """Attention over one batch. What all layers share (tiles, masks, time buckets) is calculated here, once."""

    @abstractmethod
    def __init__(self, sequences: Sequences, config: ModelConfig) -> None: ...

    @staticmethod
    def fallback(sequences: Sequences) -> str | None:
        """The implementation that calculates this batch in its place; None where it can itself."""
        return None

    @abstractmethod
    def attend(
        self,
        q_LNA: torch.Tensor,
        k_LNA: torch.Tensor,
        v_LNV: torch.Tensor,
        layer: AttentionLayer,
    ) -> torch.Tensor:
        """q, k [L, N, A] and v [L, N, V] -> [L, N * V]."""

    def in_one_call(self, layer: AttentionLayer) -> dict[str, Any] | None:
        """What `attend` gives a single call of gr_ops' operators beside q, k and v: the arguments of
        gr_ops.cuda.layer.whole.Attention but the heads, and `tables` of the relative bias. None: it is not one call,
        or of other operators."""
        return None


def implementation(sequences: Sequences, name: str) -> type[BatchAttention]:
    """The one that `model.attention` names, or what stands in for it on this device or with these masks."""
    chosen = load(name)
    while (other := chosen.fallback(sequences)) is not None:
        chosen = load(other)
    return chosen


def load(name: str) -> type[BatchAttention]:
    """The class of a line of the registry."""
    entry = IMPLEMENTATIONS[name]
    found: type[BatchAttention] = getattr(
        importlib.import_module(f"gr_model.model.attention.{entry.module}"), entry.class_name
    )
    return found


def for_batch(sequences: Sequences, config: ModelConfig) -> BatchAttention:
    return implementation(sequences, config.attention)(sequences, config)
