"""HSTU (Zhai et al. 2024, "Actions Speak Louder than Words", section 3) over jagged sequences.

Shape suffixes
  L  tokens of all sequences, one after the other     B  sequences            D  model dim
  S  longest sequence of the batch                    N  heads                A  query/key dim per head
  V  value dim per head
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from gr_model.config import ModelConfig
from gr_model.model import fused_ops
from gr_model.model.attention import base as attention
from gr_model.model.attention.attention import Attention
from gr_model.model.attention.base import BatchAttention
from gr_model.model.dropout import Dropout
from gr_model.model.sequences import Sequences


class HSTULayer(nn.Module):
    """x + W2 (a * u) with a = norm(attention) and u, v, q, k = SiLU(W1 norm(x)): equations 1 to 3 of the paper.

    With `model.concat_ua` x + W2 [u, a, a * u], as the published code can: W2 has three times the columns.
    """

    COMPILED = ("_projected", "_gated")

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.concat_ua = config.heads, config.concat_ua
        self.fused = config.attention == "fused" and not config.concat_ua  # the operators know the product alone
        values, keys = config.heads * config.value_dim, config.heads * config.qk_dim
        self.split = (values, values, keys, keys)
        self.norm = nn.LayerNorm(config.dim, config.norm_eps, elementwise_affine=False)
        self.attention_norm = nn.LayerNorm(values, config.norm_eps, elementwise_affine=False)
        self.uvqk = nn.Parameter(torch.empty(config.dim, sum(self.split)).normal_(std=0.02))
        self.output = nn.Linear(values * (3 if config.concat_ua else 1), config.dim)
        nn.init.xavier_uniform_(self.output.weight)
        self.attention = Attention(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x_LD: torch.Tensor, batch: BatchAttention) -> torch.Tensor:
        if self._fits_operators(x_LD) and (whole_LD := self._whole(x_LD, batch)) is not None:
            return whole_LD
        x_LD, u_L, v_L, q_L, k_L = self.project(x_LD)
        q_LNA, k_LNA, v_LNV = (x_L.unflatten(1, (self.heads, -1)) for x_L in (q_L, k_L, v_L))
        attended_L = self.attention(q_LNA, k_LNA, v_LNV, batch)
        return self.add_gated(x_LD, attended_L, u_L)

    def _whole(self, x_LD: torch.Tensor, batch: BatchAttention) -> torch.Tensor | None:
        """By one function of gr_ops, where it has one."""
        arguments = self.attention.in_one_call(batch)
        if arguments is None:
            return None
        eps, arguments = (self.norm.eps, self.attention_norm.eps), {**arguments, "heads": self.heads}
        return fused_ops.whole_layer(x_LD, self.uvqk, self.output, self.split, eps, self.dropout, arguments)

    def project(self, x_LD: torch.Tensor) -> Sequence[torch.Tensor]:
        """x, for `add_gated`, and u, v, q, k = SiLU(W1 norm(x))"""
        if self._by_operators(x_LD):
            return fused_ops.projection(x_LD, self.uvqk, self.split, self.norm.eps)
        return [x_LD, *self._projected(x_LD)]

    def add_gated(self, x_LD: torch.Tensor, attended_L: torch.Tensor, u_L: torch.Tensor) -> torch.Tensor:
        """x + W2 (a * u), or x + W2 [u, a, a * u]"""
        if self._by_operators(x_LD):
            keep_L = self.dropout.keep(u_L)
            return fused_ops.gated_output(
                attended_L, u_L, x_LD, self.output, keep_L, self.dropout.scale, self.attention_norm.eps
            )
        return x_LD + self.output(self.dropout(self._gated(u_L, attended_L)))

    def _fits_operators(self, x_LD: torch.Tensor) -> bool:
        return self.fused and fused_ops.around_attention(x_LD, self.uvqk, self.split[0])

    def _by_operators(self, x_LD: torch.Tensor) -> bool:
        """Not on a GPU where training/compiled.py has compiled the parts, which is faster than the operators."""
        return not (x_LD.is_cuda and "_projected" in vars(self)) and self._fits_operators(x_LD)

    def _projected(self, x_LD: torch.Tensor) -> Sequence[torch.Tensor]:
        parts: Sequence[torch.Tensor] = F.silu(self.norm(x_LD) @ self.uvqk).split(self.split, dim=1)
        return parts

    def _gated(self, u_L: torch.Tensor, attended_L: torch.Tensor) -> torch.Tensor:
        a_L = self.attention_norm(attended_L)
        return torch.cat([u_L, a_L, u_L * a_L], 1) if self.concat_ua else u_L * a_L


class HSTU(nn.Module):
    """A stack of layers: x_LD -> x_LD."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(HSTULayer(config) for _ in range(config.blocks))

    def forward(self, x_LD: torch.Tensor, sequences: Sequences) -> torch.Tensor:
        batch = attention.for_batch(sequences, self.config)
        for layer in self.layers:
            if self.config.recompute and torch.is_grad_enabled():
                x_LD = checkpoint(layer, x_LD, batch, use_reentrant=False)
            else:
                x_LD = layer(x_LD, batch)
        return x_LD
