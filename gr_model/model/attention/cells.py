"""Which keys a query of a tile sees, and how far they are from it in tokens and in time. Suffixes as in plain.py."""

from __future__ import annotations

from functools import cached_property

import torch

from gr_model.config import ModelConfig
from gr_model.model.attention.relative_bias import IndexedCells
from gr_model.model.attention.time_buckets import time_bucket
from gr_model.model.sequences import Sequences


class TileCells:
    """Sequences [first, first + rows), queries [start, stop), keys [0, keys)."""

    def __init__(
        self, sequences: Sequences, device: torch.device, first: int, rows: int, start: int, stop: int, keys: int
    ) -> None:
        self.sequences, self.keys = sequences, keys
        self.first, self.rows, self.start, self.stop = first, rows, start, stop
        self.query_1Q1 = torch.arange(start, stop, device=device)[None, :, None]
        self.key_11K = torch.arange(keys, device=device)[None, None, :]

    def seen_RQK(self) -> torch.Tensor:
        """1 where the query sees the key, else 0."""
        seen_RQK = self.key_11K <= self.query_1Q1
        if not self.sequences.causal:
            hidden_RQK = (self.key_11K >= self._history_R11) & (self.key_11K != self.query_1Q1)
            seen_RQK = (seen_RQK | (self.query_1Q1 < self.sequences.contexts)) & ~hidden_RQK
        return seen_RQK.float()

    def bias_cells(self, times_BS: torch.Tensor, config: ModelConfig) -> IndexedCells:
        position_q, position_k = self.query_1Q1, self.key_11K
        if not self.sequences.causal:
            # All targets stand where the next token would: their order means nothing.
            history_R11 = self._history_R11
            position_q, position_k = position_q.minimum(history_R11), position_k.minimum(history_R11)
        times_RS = times_BS[self.first : self.first + self.rows]
        seconds_RQK = times_RS[:, self.start : self.stop, None] - times_RS[:, None, : self.keys]
        return IndexedCells((position_q - position_k).clamp(min=0), time_bucket(seconds_RQK, config))

    @cached_property
    def _history_R11(self) -> torch.Tensor:
        return self.sequences.history_B()[self.first : self.first + self.rows, None, None]
