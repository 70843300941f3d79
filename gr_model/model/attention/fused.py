"""Attention by the operators torch.ops.mxrec.hstu_* of gr_ops.

On a CPU hstu_relative makes the bias itself. Where there is none that fits, hstu_dense and hstu_jagged take it as a
tensor: they skip padding by themselves, their bias does not, so the batch is cut into groups of whole sequences of
similar length. Shape suffixes as in plain.py; S longest sequence of a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from gr_model.config import ModelConfig
from gr_model.model import fused_ops, jagged
from gr_model.model.attention import kernels
from gr_model.model.attention.base import CAUSAL, AttentionLayer, BatchAttention
from gr_model.model.attention.cells import TileCells
from gr_model.model.attention.relative_bias import BiasCells, OperatorCells
from gr_model.model.attention.time_buckets import thresholds
from gr_model.model.sequences import Sequences

GROUP_RATIO = 0.7  # a group of sequences ends where they become shorter than this part of its longest


@dataclass(frozen=True)
class Group:
    """Sequences [first, first + rows), the longest of `longest` tokens; `tokens` are those of all of them."""

    first: int
    rows: int
    longest: int
    tokens: int
    offsets_R1: torch.Tensor  # where each of these sequences starts, counted from the first of them
    bias_cells: BiasCells | None  # None: a model without a bias


class FusedAttention(BatchAttention):
    def __init__(self, sequences: Sequences, config: ModelConfig) -> None:
        self.sequences, self.config = sequences, config
        self.whole = kernels.KernelAttention(sequences, config)

    @staticmethod
    def fallback(sequences: Sequences) -> str | None:
        device = sequences.times_L.device.type
        return "kernels" if device == "cuda" or (device == "npu" and kernels.available(device)) else None

    def attend(
        self, q_LNA: torch.Tensor, k_LNA: torch.Tensor, v_LNV: torch.Tensor, layer: AttentionLayer
    ) -> torch.Tensor:
        if self._makes_bias(layer):
            return self.whole.attend(q_LNA, k_LNA, v_LNV, layer)
        tokens = [group.tokens for group in self.groups]
        # split, because slices would each have a gradient of the size of the whole.
        parts = zip(self.groups, q_LNA.split(tokens), k_LNA.split(tokens), v_LNV.split(tokens), strict=True)
        return torch.cat([self._attend(group, q, k, v, layer) for group, q, k, v in parts]).flatten(1)

    def in_one_call(self, layer: AttentionLayer) -> dict[str, Any] | None:
        return kernels.one_call(self.sequences, layer.scale) if layer.bias is None else None

    def _makes_bias(self, layer: AttentionLayer) -> bool:
        """Whether the operator that makes the bias itself takes the layer. On a CPU it is the faster one, as it writes
        no squares (benchmarks/training.py); its tables are float32 only, so models in float64 go by groups."""
        on_cpu = self.sequences.times_L.device.type == "cpu"
        return on_cpu and layer.bias is not None and layer.bias.position.dtype == torch.float32

    @cached_property
    def groups(self) -> list[Group]:
        sequences, config = self.sequences, self.config
        if not config.relative_bias:
            whole = (0, len(sequences.lengths), sequences.longest, sequences.total)
            return [Group(*whole, sequences.offsets_B1, None)]
        if fused_ops.has_bias(sequences.times_L.device):
            return [_with_operator(sequences, config, *rows) for rows in _groups(sequences)]
        times_BS = jagged.to_padded(sequences.times_L, sequences.offsets_B1, sequences.longest)
        return [_with_indices(sequences, times_BS, config, *rows) for rows in _groups(sequences)]

    def _attend(
        self, group: Group, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: AttentionLayer
    ) -> torch.Tensor:
        bias = layer.bias(group.bias_cells)[:, None].to(v.dtype) if layer.bias is not None else None
        common = (q, k, v, None, bias, CAUSAL, group.longest, layer.scale)
        sequences, operators = self.sequences, torch.ops.mxrec
        if sequences.causal:
            dense: torch.Tensor = operators.hstu_dense(*common, "jagged", group.offsets_R1)
            return dense
        rows = slice(group.first, group.first + group.rows)
        targets, contexts = sequences.targets_B[rows], sequences.contexts_B[rows]
        jagged_out: torch.Tensor = operators.hstu_jagged(*common, group.offsets_R1, contexts, targets, 1)
        return jagged_out


def _groups(sequences: Sequences) -> list[tuple[int, int]]:
    """(first, rows)"""
    out, first = [], 0
    for row in range(1, len(sequences.lengths) + 1):
        longest = sequences.lengths[first]
        if row == len(sequences.lengths) or sequences.lengths[row] < GROUP_RATIO * longest:
            out.append((first, row - first))
            first = row
    return out


def _with_indices(sequences: Sequences, times_BS: torch.Tensor, config: ModelConfig, first: int, rows: int) -> Group:
    longest = sequences.lengths[first]
    cells = TileCells(sequences, times_BS.device, first, rows, 0, longest, longest)
    return _group(sequences, first, rows, cells.bias_cells(times_BS, config))


def _with_operator(sequences: Sequences, config: ModelConfig, first: int, rows: int) -> Group:
    offsets_R1 = _offsets(sequences, first, rows)
    begin = sum(sequences.lengths[:first])
    times = sequences.times_L[begin : begin + sum(sequences.lengths[first : first + rows])]
    bucket_RQK = torch.ops.mxrec.hstu_time_buckets(
        times, offsets_R1, thresholds(config.time_buckets), sequences.lengths[first], sequences.contexts
    )
    history_R = sequences.history_B()[first : first + rows] if sequences.targets else None
    return _group(sequences, first, rows, OperatorCells(bucket_RQK, offsets_R1, history_R, sequences.contexts))


def _group(sequences: Sequences, first: int, rows: int, cells: BiasCells) -> Group:
    tokens = sum(sequences.lengths[first : first + rows])
    return Group(first, rows, sequences.lengths[first], tokens, _offsets(sequences, first, rows), cells)


def _offsets(sequences: Sequences, first: int, rows: int) -> torch.Tensor:
    return sequences.offsets_B1[first : first + rows + 1] - sum(sequences.lengths[:first])
