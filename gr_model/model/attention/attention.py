"""Pointwise attention of HSTU, SiLU(q k + bias) v / max_tokens, in plain PyTorch or by one fused operator.

Both work on tiles of the padded B x S x S square that leave most of the padding out, because the batch is ordered by
length. Shape suffixes as in hstu.py; R sequences, Q queries and K keys of one tile.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import nn

from gr_model.config import ModelConfig
from gr_model.model import fused_ops as fused
from gr_model.model import jagged
from gr_model.model.attention import blocked
from gr_model.model.sequences import Sequences

CAUSAL = 0  # the operator's mask type: keys up to the query, and the rule of contextual tokens and targets
QUERY_BLOCK = 32  # smaller skips more padding, larger makes fewer operator calls
GROUP_RATIO = 0.7  # a group of sequences ends where they become shorter than this part of its longest


@dataclass(frozen=True)
class Tile:
    """Sequences [first, first + R), queries [start, stop), keys [0, K). Computed once a batch, used by every layer."""

    first: int
    rows: int
    start: int
    stop: int
    offsets_R1: torch.Tensor  # where each of these sequences starts, counted from the first of them
    # How many tokens the key lies before the query, at least 0; R is 1 if all are alike. None: the operator knows.
    distance_RQK: torch.Tensor | None
    bucket_RQK: torch.Tensor | None  # of the time between the two; None: without a bias
    seen_RQK: torch.Tensor | None  # 1 where the query sees the key, else 0; None: the operator knows


def way(sequences: Sequences, config: ModelConfig) -> str:
    """ "plain", "fused", "kernels" or "blocked": what config.attention means here.

    The operators on CUDA ("kernels") calculate the relative bias too, and take a batch as it is; where they are missing
    blocks stand in.
    """
    kind = config.attention
    if kind == "fused" and sequences.times_L.is_cuda:
        kind = "kernels" if on_cuda() else "blocked"
    return "plain" if kind == "blocked" and not sequences.causal else kind


@cache
def on_cuda() -> bool:
    """Whether there are operators for CUDA tensors: gr_ops is loaded, and Triton is installed."""
    return hasattr(torch.ops.mxrec, "hstu_relative") and importlib.util.find_spec("triton") is not None


def tiles(sequences: Sequences, config: ModelConfig) -> list[Tile]:
    kind = way(sequences, config)
    if kind in ("blocked", "kernels"):
        return []
    if kind == "fused" and not config.relative_bias:
        return [Tile(0, len(sequences.lengths), 0, sequences.longest, sequences.offsets_B1, None, None, None)]
    if kind == "fused" and fused.has_bias(sequences.times_L.device):
        return [_tile_of_operator(sequences, config, *corners[:2]) for corners in _groups(sequences)]
    times_BS = jagged.to_padded(sequences.times_L, sequences.offsets_B1, sequences.longest)
    cut = _groups if kind == "fused" else _query_blocks
    return [_tile(sequences, times_BS, config, *corners) for corners in cut(sequences)]


def _query_blocks(sequences: Sequences) -> list[tuple[int, int, int, int, int]]:
    """Queries [start, stop) of those sequences that have any; no query but a contextual one has a key past its own."""
    out = []
    for start in range(0, sequences.longest, QUERY_BLOCK):
        stop = min(start + QUERY_BLOCK, sequences.longest)
        keys = sequences.longest if start < sequences.contexts else stop
        out.append((0, sum(length > start for length in sequences.lengths), start, stop, keys))
    return out


def _groups(sequences: Sequences) -> list[tuple[int, int, int, int, int]]:
    """Whole sequences of similar length: the operator skips padding by itself, their bias does not."""
    out, first = [], 0
    for row in range(1, len(sequences.lengths) + 1):
        longest = sequences.lengths[first]
        if row == len(sequences.lengths) or sequences.lengths[row] < GROUP_RATIO * longest:
            out.append((first, row - first, 0, longest, longest))
            first = row
    return out


def _tile(
    sequences: Sequences, times_BS: torch.Tensor, config: ModelConfig,
    first: int, rows: int, start: int, stop: int, keys: int,
) -> Tile:  # fmt: skip
    device, plain = times_BS.device, way(sequences, config) == "plain"
    query_1Q1 = torch.arange(start, stop, device=device)[None, :, None]
    key_11K = torch.arange(keys, device=device)[None, None, :]
    position_q, position_k = query_1Q1, key_11K
    seen_RQK = key_11K <= query_1Q1
    if not sequences.causal:
        history_R11 = sequences.history_B()[first : first + rows, None, None]
        # All targets stand where the next token would: their order means nothing.
        position_q, position_k = query_1Q1.minimum(history_R11), key_11K.minimum(history_R11)
        hidden_RQK = (key_11K >= history_R11) & (key_11K != query_1Q1)
        seen_RQK = (seen_RQK | (query_1Q1 < sequences.contexts)) & ~hidden_RQK
    times_RS = times_BS[first : first + rows]
    return Tile(
        first=first,
        rows=rows,
        start=start,
        stop=stop,
        offsets_R1=_offsets(sequences, first, rows),
        distance_RQK=(position_q - position_k).clamp(min=0),
        bucket_RQK=time_bucket(times_RS[:, start:stop, None] - times_RS[:, None, :keys], config),
        seen_RQK=seen_RQK.float() if plain else None,
    )


def _tile_of_operator(sequences: Sequences, config: ModelConfig, first: int, rows: int) -> Tile:
    """A group of whole sequences. The operators of the bias look at those cells only that a query sees."""
    offsets_R1, longest = _offsets(sequences, first, rows), sequences.lengths[first]
    begin = sum(sequences.lengths[:first])
    times = sequences.times_L[begin : begin + sum(sequences.lengths[first : first + rows])]
    buckets = torch.ops.mxrec.hstu_time_buckets(
        times, offsets_R1, thresholds(config.time_buckets), longest, sequences.contexts
    )
    return Tile(first, rows, 0, longest, offsets_R1, None, buckets, None)


def _offsets(sequences: Sequences, first: int, rows: int) -> torch.Tensor:
    return sequences.offsets_B1[first : first + rows + 1] - sum(sequences.lengths[:first])


@cache
def thresholds(count: int) -> torch.Tensor:
    """[count] int64: the least number of seconds of each of `time_bucket`'s buckets, found by halving."""
    largest = torch.iinfo(torch.int64).max
    low, high = torch.zeros(count, dtype=torch.int64), torch.full((count,), largest)
    config = ModelConfig(time_buckets=count)
    while bool((low < high).any()):
        middle = low + (high - low) // 2
        enough = time_bucket(middle, config) >= torch.arange(count)
        low, high = torch.where(enough, low, (middle + 1).clamp(max=high)), torch.where(enough, middle, high)
    low[0] = torch.iinfo(torch.int64).min
    return low


@cache
def time_cells(count: int, device: torch.device) -> torch.Tensor:
    """The same for the operators on CUDA, as a table of cells (gr_ops.cuda.relative_bias)."""
    from gr_ops.cuda import relative_bias  # where Triton is installed

    starts = time_bucket(relative_bias.cell_starts().double(), ModelConfig(time_buckets=count))
    return relative_bias.cells_of(starts, thresholds(count)).to(device)


def time_bucket(seconds: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """Logarithmic buckets, 0.301 apart as in the public HSTU code; a negative difference counts as none."""
    bucket = seconds.float().clamp_(min=1).log_().div_(0.301)
    return bucket.clamp_(max=config.time_buckets - 1).to(torch.int32)


class RelativeBias(nn.Module):
    """A learned number per distance in tokens plus one per bucket of distance in time, the same for all heads."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.empty(config.max_tokens).normal_(std=0.02))
        self.time = nn.Parameter(torch.empty(config.time_buckets).normal_(std=0.02))

    def forward(self, tile: Tile, sequences: Sequences) -> torch.Tensor:
        """[R, Q, K]"""
        if tile.distance_RQK is None:
            return self._by_operator(tile, sequences)
        # index_select for its backward, index_add: 1.4 ms for 1.5M elements on two cores; indexing 16, embedding 65.
        position_RQK = self.position.index_select(0, tile.distance_RQK.flatten()).view(tile.distance_RQK.shape)
        time_RQK = self.time.index_select(0, tile.bucket_RQK.flatten()).view(tile.bucket_RQK.shape)
        return time_RQK + position_RQK

    def _by_operator(self, tile: Tile, sequences: Sequences) -> torch.Tensor:
        rows = slice(tile.first, tile.first + tile.rows)
        history_R = sequences.history_B()[rows] if sequences.targets else None
        bias_R1SS = torch.ops.mxrec.hstu_relative_bias(
            self.position, self.time, tile.bucket_RQK, tile.offsets_R1, history_R, sequences.contexts
        )
        return bias_R1SS.squeeze(1)  # not [:, 0]: its gradient would be written into zeros


class Attention(nn.Module):
    """q, k [L, N, A] and v [L, N, V] -> [L, N * V]."""

    COMPILED = ("_weights",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.bias = RelativeBias(config) if config.relative_bias else None
        self.scale = 1 / config.max_tokens

    def forward(
        self, q_LNA: torch.Tensor, k_LNA: torch.Tensor, v_LNV: torch.Tensor, sequences: Sequences, parts: list[Tile]
    ) -> torch.Tensor:
        kind = way(sequences, self.config)
        if kind == "blocked":
            return self._recomputed(q_LNA, k_LNA, v_LNV, sequences)
        if kind == "kernels":
            return self._by_kernels(q_LNA, k_LNA, v_LNV, sequences)
        attend = self._by_operator if kind == "fused" else self._by_blocks
        return attend(q_LNA, k_LNA, v_LNV, sequences, parts)

    def _recomputed(
        self, q_LNA: torch.Tensor, k_LNA: torch.Tensor, v_LNV: torch.Tensor, sequences: Sequences
    ) -> torch.Tensor:
        # Contiguous, or every product would copy its operands.
        qkv = (self._padded(x, sequences).contiguous() for x in (q_LNA, k_LNA, v_LNV))
        layout = blocked.Layout(sequences.lengths, self.scale)
        if self.bias is None:
            out_BNSV = blocked.attend(*qkv, None, None, layout)
        else:
            times_BS = jagged.to_padded(sequences.times_L, sequences.offsets_B1, sequences.longest)
            layout = replace(layout, times_BS=times_BS, bucket_of=partial(time_bucket, config=self.config))
            out_BNSV = blocked.attend(*qkv, self.bias.position, self.bias.time, layout)
        out_BSV = out_BNSV.transpose(1, 2).flatten(2)
        return jagged.to_jagged(out_BSV, sequences.offsets_B1, sequences.total)

    def _by_kernels(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sequences: Sequences) -> torch.Tensor:
        offsets, longest = sequences.offsets_B1, sequences.longest
        contexts, targets = (None, None) if sequences.causal else (sequences.contexts_B, sequences.targets_B)
        if self.bias is None:
            out = torch.ops.mxrec.hstu_jagged(
                q, k, v, None, None, CAUSAL, longest, self.scale, offsets, contexts, targets, 1
            )
        else:
            cells = time_cells(self.config.time_buckets, q.device)
            out = torch.ops.mxrec.hstu_relative(
                q, k, v, self.bias.position, self.bias.time, sequences.times_L, cells, offsets, contexts, targets, 1,
                longest, self.scale,
            )  # fmt: skip
        return out.flatten(1)

    def _by_operator(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sequences: Sequences, parts: list[Tile]
    ) -> torch.Tensor:
        rows = [slice(part.first, part.first + part.rows) for part in parts]
        tokens = [sum(sequences.lengths[row]) for row in rows]
        out = []
        # split, because slices would each have a gradient of the size of the whole.
        for part, row, *qkv in zip(parts, rows, q.split(tokens), k.split(tokens), v.split(tokens), strict=True):
            bias_R1SS = self.bias(part, sequences)[:, None].to(v.dtype) if self.bias is not None else None
            out.append(self._operator(*qkv, bias_R1SS, part.stop, part.offsets_R1, sequences, row))
        return torch.cat(out).flatten(1)

    def _operator(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, longest: int,
        offsets: torch.Tensor, sequences: Sequences, rows: slice,
    ) -> torch.Tensor:  # fmt: skip
        if sequences.causal:
            return torch.ops.mxrec.hstu_dense(q, k, v, None, bias, CAUSAL, longest, self.scale, "jagged", offsets)
        counts = range(*rows.indices(len(sequences.lengths)))
        targets = torch.tensor([sequences.targets[b] if sequences.targets else 0 for b in counts], device=q.device)
        contexts = torch.full_like(targets, sequences.contexts)
        return torch.ops.mxrec.hstu_jagged(
            q, k, v, None, bias, CAUSAL, longest, self.scale, offsets, contexts, targets, 1
        )

    def _by_blocks(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sequences: Sequences, parts: list[Tile]
    ) -> torch.Tensor:
        q_BNSA, k_BNSA, v_BNSV = (self._padded(x, sequences) for x in (q, k, v * self.scale))
        out = []
        for part in parts:
            rows, keys = part.rows, part.bucket_RQK.shape[2]
            scores_RNQK = q_BNSA[:rows, :, part.start : part.stop] @ k_BNSA[:rows, :, :keys].transpose(2, 3)
            bias_RQK = self.bias(part, sequences) if self.bias is not None else None
            weights_RNQK = self._weights(scores_RNQK, bias_RQK, part.seen_RQK)
            out_RQV = (weights_RNQK.to(v.dtype) @ v_BNSV[:rows, :, :keys]).transpose(1, 2).flatten(2)
            # Sequences that end before a block have no queries there; their rows are padding.
            out.append(F.pad(out_RQV, (0, 0, 0, 0, 0, len(sequences.lengths) - rows)))
        return jagged.to_jagged(torch.cat(out, dim=1), sequences.offsets_B1, sequences.total)

    def _weights(
        self, scores_RNQK: torch.Tensor, bias_RQK: torch.Tensor | None, seen_RQK: torch.Tensor
    ) -> torch.Tensor:
        if bias_RQK is not None:
            scores_RNQK = scores_RNQK + bias_RQK[:, None]
        return F.silu(scores_RNQK) * seen_RQK[:, None]

    @staticmethod
    def _padded(x_LNA: torch.Tensor, sequences: Sequences) -> torch.Tensor:
        heads = x_LNA.shape[1]
        x_BS = jagged.to_padded(x_LNA.flatten(1), sequences.offsets_B1, sequences.longest)
        return x_BS.unflatten(2, (heads, -1)).transpose(1, 2)
