"""HSTU (Zhai et al. 2024, "Actions Speak Louder than Words", section 3) over jagged sequences.

The attention is plain PyTorch on blocks of queries, or one fused operator (`ModelConfig.attention`).

Shape suffixes
  L  tokens of all sequences, one after the other     B  sequences            D  model dim
  S  longest sequence of the batch                    N  heads                A  query/key dim per head
  Q  queries of one block   K  keys of one block      V  value dim per head
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from gr_model import draws, jagged
from gr_model.config import ModelConfig

CAUSAL = 0  # the operator's mask type: keys up to the query
QUERY_BLOCK = 32  # smaller skips more padding, larger makes fewer operator calls


@dataclass(frozen=True)
class Sequences:
    """How the tokens of a batch are laid out. The batch is ordered by length, longest first."""

    offsets_B1: torch.Tensor
    times_L: torch.Tensor  # int64, seconds; when the token became known
    lengths: tuple[int, ...]  # on the host, so that no step waits for the device

    def __post_init__(self) -> None:
        if any(a < b for a, b in zip(self.lengths, self.lengths[1:], strict=False)):
            raise ValueError("sequences must be ordered by length, longest first")

    @property
    def total(self) -> int:
        return sum(self.lengths)

    @property
    def longest(self) -> int:
        return self.lengths[0] if self.lengths else 0


@dataclass(frozen=True)
class QueryBlock:
    """Queries [start, stop) of those sequences that are long enough to have any of them.

    Because the batch is ordered by length these are its first `rows` sequences, and because attention is causal the
    block needs only the keys [0, stop). Both together skip most of the padded B x S x S square.
    """

    start: int
    stop: int
    rows: int
    distance_QK: torch.Tensor  # how many tokens the key lies before the query
    bucket_BQK: torch.Tensor  # of the time between the two
    weight_QK: torch.Tensor  # causal mask / max_tokens


def query_blocks(sequences: Sequences, config: ModelConfig) -> list[QueryBlock]:
    """Computed once per batch and used by every layer. The fused operator takes all queries as one block."""
    device = sequences.times_L.device
    plain = config.attention == "plain"
    size = QUERY_BLOCK if plain else max(sequences.longest, 1)
    times_BS = jagged.to_padded(sequences.times_L, sequences.offsets_B1, sequences.longest)
    blocks = []
    for start in range(0, sequences.longest, size):
        stop = min(start + size, sequences.longest)
        rows = sum(length > start for length in sequences.lengths) if plain else len(sequences.lengths)
        distance_QK = torch.arange(start, stop, device=device)[:, None] - torch.arange(stop, device=device)
        blocks.append(
            QueryBlock(
                start=start,
                stop=stop,
                rows=rows,
                distance_QK=distance_QK.clamp(min=0),
                bucket_BQK=time_bucket(times_BS[:rows, start:stop, None] - times_BS[:rows, None, :stop], config),
                weight_QK=(distance_QK >= 0).float() / config.max_tokens,
            )
        )
    return blocks


def time_bucket(seconds: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """Logarithmic buckets, 0.301 apart as in the public HSTU code; a negative difference counts as none."""
    bucket = (seconds.clamp(min=1).float().log() / 0.301).to(torch.int32)
    return bucket.clamp(max=config.time_buckets - 1)


class RelativeBias(nn.Module):
    """A learned number per distance in tokens plus one per bucket of distance in time, the same for all heads."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.empty(config.max_tokens).normal_(std=0.02))
        self.time = nn.Parameter(torch.empty(config.time_buckets).normal_(std=0.02))

    def forward(self, block: QueryBlock) -> torch.Tensor:
        # index_select for its backward, index_add: 1.4 ms for 1.5M elements on two cores; indexing 16, embedding 65.
        position_QK = self.position.index_select(0, block.distance_QK.flatten()).view(block.distance_QK.shape)
        time_BQK = self.time.index_select(0, block.bucket_BQK.flatten()).view(block.bucket_BQK.shape)
        return time_BQK + position_QK


class Dropout(nn.Module):
    """Dropout that can draw on the host, so that every device and any number of processes drop the same elements."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.from_host = False
        self.stream = 0  # tells the modules of a model apart

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not (self.training and self.p and self.from_host):
            return F.dropout(x, self.p, self.training)
        return x * ((draws.for_tensor(x.shape, self.stream) >= self.p) / (1 - self.p)).to(x.device)


class HSTULayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.qk_dim, self.value_dim = config.heads, config.qk_dim, config.value_dim
        self.fused, self.scale = config.attention == "fused", 1 / config.max_tokens
        values, keys = config.heads * config.value_dim, config.heads * config.qk_dim
        self.split = (values, values + 2 * keys)  # u | v, q, k
        self.norm = nn.LayerNorm(config.dim, config.norm_eps, elementwise_affine=False)
        self.attention_norm = nn.LayerNorm(values, config.norm_eps, elementwise_affine=False)
        self.uvqk = nn.Parameter(torch.empty(config.dim, sum(self.split)).normal_(std=0.02))
        self.output = nn.Linear(values, config.dim)
        nn.init.xavier_uniform_(self.output.weight)
        self.bias = RelativeBias(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x_LD: torch.Tensor, sequences: Sequences, blocks: list[QueryBlock]) -> torch.Tensor:
        u_LV, vqk_L = F.silu(self.norm(x_LD) @ self.uvqk).split(self.split, dim=1)
        attend = self._attend_fused if self.fused else self._attend_plain
        attended_LV = attend(vqk_L, sequences, blocks)
        return x_LD + self.output(self.dropout(u_LV * self.attention_norm(attended_LV)))

    def _attend_fused(self, vqk_L: torch.Tensor, sequences: Sequences, blocks: list[QueryBlock]) -> torch.Tensor:
        values, keys = self.heads * self.value_dim, self.heads * self.qk_dim
        v_L, q_L, k_L = vqk_L.split((values, keys, keys), dim=1)
        q_LNA, k_LNA = q_L.unflatten(1, (self.heads, self.qk_dim)), k_L.unflatten(1, (self.heads, self.qk_dim))
        v_LNV = v_L.unflatten(1, (self.heads, self.value_dim))
        (block,) = blocks
        bias_B1SS = self.bias(block)[:, None].to(v_LNV.dtype)
        arguments = (None, bias_B1SS, CAUSAL, sequences.longest, self.scale, "jagged", sequences.offsets_B1)
        return torch.ops.mxrec.hstu_dense(q_LNA, k_LNA, v_LNV, *arguments).flatten(1)

    def _attend_plain(self, vqk_L: torch.Tensor, sequences: Sequences, blocks: list[QueryBlock]) -> torch.Tensor:
        vqk_BS = jagged.to_padded(vqk_L, sequences.offsets_B1, sequences.longest)
        v_BNSV, q_BNSA, k_BNSA = self._heads(vqk_BS)
        parts = [self._attend_block(block, q_BNSA, k_BNSA, v_BNSV) for block in blocks]
        # Sequences that end before a block have no queries there; their rows are padding.
        rows = len(sequences.lengths)
        padded = torch.cat([F.pad(part, (0, 0, 0, 0, 0, rows - part.shape[0])) for part in parts], dim=1)
        return jagged.to_jagged(padded, sequences.offsets_B1, sequences.total)

    def _attend_block(self, block: QueryBlock, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q_BNQA = q[: block.rows, :, block.start : block.stop]
        k_BNKA, v_BNKV = k[: block.rows, :, : block.stop], v[: block.rows, :, : block.stop]
        scores_BNQK = q_BNQA @ k_BNKA.transpose(2, 3) + self.bias(block)[:, None]
        out_BNQV = (F.silu(scores_BNQK) * block.weight_QK) @ v_BNKV
        return out_BNQV.transpose(1, 2).flatten(2)

    def _heads(self, vqk_BS: torch.Tensor) -> Iterator[torch.Tensor]:
        keys = self.heads * self.qk_dim
        for part, dim in zip(
            vqk_BS.split((self.heads * self.value_dim, keys, keys), dim=2),
            (self.value_dim, self.qk_dim, self.qk_dim),
            strict=True,
        ):
            yield part.unflatten(2, (self.heads, dim)).transpose(1, 2)


class HSTU(nn.Module):
    """A stack of layers: x_LD -> x_LD."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(HSTULayer(config) for _ in range(config.blocks))

    def forward(self, x_LD: torch.Tensor, sequences: Sequences) -> torch.Tensor:
        blocks = query_blocks(sequences, self.config)
        for layer in self.layers:
            x_LD = layer(x_LD, sequences, blocks)
        return x_LD
