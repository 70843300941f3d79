"""SASRec (Kang and McAuley 2018): causal softmax attention and a pointwise feed-forward network, norm first.

The baseline of HSTU: same embeddings, same loss, same protocol. It has no relative bias and does not see times.
Shape suffixes as in hstu.py, with E the width of all heads together.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from gr_model.config import ModelConfig
from gr_model.model import jagged
from gr_model.model.dropout import Dropout
from gr_model.model.sequences import Sequences


class SASRecLayer(nn.Module):
    COMPILED = ("_widened",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.split = (config.heads * config.qk_dim,) * 2 + (config.heads * config.value_dim,)  # q, k, v
        self.attention_norm = nn.LayerNorm(config.dim, config.norm_eps)
        self.forward_norm = nn.LayerNorm(config.dim, config.norm_eps)
        self.qkv = nn.Linear(config.dim, sum(self.split))
        self.output = nn.Linear(self.split[2], config.dim)
        self.widen, self.narrow = nn.Linear(config.dim, config.dim), nn.Linear(config.dim, config.dim)
        self.dropout = Dropout(config.dropout)
        for linear in (self.qkv, self.output, self.widen, self.narrow):
            nn.init.xavier_normal_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x_LD: torch.Tensor, sequences: Sequences) -> torch.Tensor:
        x_LD = x_LD + self.dropout(self.output(self.attention(self.attention_norm(x_LD), sequences)))
        return x_LD + self.dropout(self.narrow(self.dropout(self._widened(x_LD))))

    def _widened(self, x_LD: torch.Tensor) -> torch.Tensor:
        return F.relu(self.widen(self.forward_norm(x_LD)))

    def attention(self, x_LD: torch.Tensor, sequences: Sequences) -> torch.Tensor:
        # Padding stands after a sequence's tokens, so no token sees it.
        qkv_BSE = jagged.to_padded(self.qkv(x_LD), sequences.offsets_B1, sequences.longest)
        q, k, v = (x.unflatten(2, (self.heads, -1)).transpose(1, 2) for x in qkv_BSE.split(self.split, dim=2))
        attended_BNSV = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        attended_BSE = attended_BNSV.transpose(1, 2).flatten(2)
        return jagged.to_jagged(attended_BSE, sequences.offsets_B1, sequences.total)


class SASRec(nn.Module):
    """A stack of layers and a last norm: x_LD -> x_LD."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.recompute = config.recompute
        self.layers = nn.ModuleList(SASRecLayer(config) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(config.dim, config.norm_eps)

    def forward(self, x_LD: torch.Tensor, sequences: Sequences) -> torch.Tensor:
        for layer in self.layers:
            if self.recompute and torch.is_grad_enabled():
                x_LD = checkpoint(layer, x_LD, sequences, use_reentrant=False)
            else:
                x_LD = layer(x_LD, sequences)
        return self.norm(x_LD)
