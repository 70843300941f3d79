"""Pointwise attention of HSTU, SiLU(q k + bias) v / max_tokens, in plain PyTorch: the reference.

Tiles of the padded B x S x S square leave most of the padding out, because the batch is ordered by length. Shape
suffixes as in hstu.py; R sequences, Q queries and K keys of one tile.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from gr_model.config import ModelConfig
from gr_model.model import jagged
from gr_model.model.attention.base import AttentionLayer, BatchAttention
from gr_model.model.attention.cells import TileCells
from gr_model.model.attention.relative_bias import BiasCells
from gr_model.model.sequences import Sequences

QUERY_BLOCK = 32  # smaller skips more padding, larger makes fewer operator calls


@dataclass(frozen=True)
class Tile:
    """The longest `rows` sequences, queries [start, stop), keys [0, keys)."""

    rows: int
    start: int
    stop: int
    keys: int
    seen_RQK: torch.Tensor  # 1 where the query sees the key, else 0
    bias_cells: BiasCells | None  # None: a model without a bias


class PlainAttention(BatchAttention):
    def __init__(self, sequences: Sequences, config: ModelConfig) -> None:
        self.sequences = sequences
        times_BS = jagged.to_padded(sequences.times_L, sequences.offsets_B1, sequences.longest)
        self.tiles = [_tile(sequences, times_BS, config, *corners) for corners in _query_blocks(sequences)]

    def attend(
        self, q_LNA: torch.Tensor, k_LNA: torch.Tensor, v_LNV: torch.Tensor, layer: AttentionLayer
    ) -> torch.Tensor:
        sequences = self.sequences
        q_BNSA, k_BNSA, v_BNSV = (padded(x, sequences) for x in (q_LNA, k_LNA, v_LNV * layer.scale))
        out = []
        for tile in self.tiles:
            rows, keys = tile.rows, tile.keys
            scores_RNQK = q_BNSA[:rows, :, tile.start : tile.stop] @ k_BNSA[:rows, :, :keys].transpose(2, 3)
            bias_RQK = layer.bias(tile.bias_cells) if layer.bias is not None else None
            weights_RNQK = layer.weights(scores_RNQK, bias_RQK, tile.seen_RQK)
            out_RQV = (weights_RNQK.to(v_LNV.dtype) @ v_BNSV[:rows, :, :keys]).transpose(1, 2).flatten(2)
            # Sequences that end before a block have no queries there; their rows are padding.
            out.append(F.pad(out_RQV, (0, 0, 0, 0, 0, len(sequences.lengths) - rows)))
        return jagged.to_jagged(torch.cat(out, dim=1), sequences.offsets_B1, sequences.total)


def padded(x_LNA: torch.Tensor, sequences: Sequences) -> torch.Tensor:
    """[B, N, S, A]"""
    heads = x_LNA.shape[1]
    x_BS = jagged.to_padded(x_LNA.flatten(1), sequences.offsets_B1, sequences.longest)
    return x_BS.unflatten(2, (heads, -1)).transpose(1, 2)


def _query_blocks(sequences: Sequences) -> list[tuple[int, int, int, int]]:
    """(rows, start, stop, keys): queries [start, stop) of those sequences that have any.

    No query but a contextual one has a key past its own.
    """
    out = []
    for start in range(0, sequences.longest, QUERY_BLOCK):
        stop = min(start + QUERY_BLOCK, sequences.longest)
        keys = sequences.longest if start < sequences.contexts else stop
        out.append((sum(length > start for length in sequences.lengths), start, stop, keys))
    return out


def _tile(
    sequences: Sequences, times_BS: torch.Tensor, config: ModelConfig, rows: int, start: int, stop: int, keys: int
) -> Tile:
    cells = TileCells(sequences, times_BS.device, 0, rows, start, stop, keys)
    bias = cells.bias_cells(times_BS, config) if config.relative_bias else None
    return Tile(rows, start, stop, keys, cells.seen_RQK(), bias)
