"""A problem of attention: what the kernels of every path are given."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gr_ops.cuda.mask import DISTANCE, HISTORY, LOWER


@dataclass(frozen=True)
class Relative:
    """Learned numbers by distance and by time bucket; times and `relative_bias.cells_of` tell the bucket."""

    position_P: torch.Tensor  # float32
    time_T: torch.Tensor  # float32
    times_L: torch.Tensor  # int64, seconds
    cells: torch.Tensor  # [512] int64


@dataclass(frozen=True)
class Pages:
    """Of each sequence the oldest keys and values, in pages of a cache."""

    cache: torch.Tensor  # [pages, 2, page_size, N, D], contiguous
    offsets: torch.Tensor  # [B + 1], of ids
    ids: torch.Tensor
    last: torch.Tensor  # [B], tokens of a sequence's last page

    @property
    def size(self) -> int:
        return self.cache.shape[2]

    def cached(self) -> torch.Tensor:
        """[B]: tokens of each sequence."""
        count = self.offsets.diff()
        return torch.where(count > 0, (count - 1) * self.size + self.last, 0)


@dataclass(frozen=True)
class Problem:
    """q, k [L, N, A], v [L, N, V]; offsets [B + 1], contexts and targets [B] of any integer type.

    With key_offsets or pages a sequence can have more keys than queries: the queries are the last of its tokens.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    offsets: torch.Tensor
    longest: int  # queries of a sequence
    scale: float
    alpha: float = 1.0
    mask_type: int = LOWER
    contexts: torch.Tensor | None = None
    targets: torch.Tensor | None = None
    group: int = 1
    window: int = 0  # max_attn_len: tokens of the history; 0: none
    min_full: int = 0  # min_full_attn_seq_len: the last tokens of the history that a window does not narrow
    distance: int = -1  # window_size: tokens of the row; -1: none
    mask: torch.Tensor | None = None  # [B or 1, N or 1, M, M]
    dense: torch.Tensor | None = None  # the same; a bias
    relative: Relative | None = None
    deterministic: bool = False  # the same shapes of tiles in every run
    key_offsets: torch.Tensor | None = None
    most_keys: int = 0  # of a sequence, cached ones included; 0: as many as queries
    pages: Pages | None = None

    @property
    def empty(self) -> bool:
        return not self.v.shape[1] * self.v.shape[2] or not len(self.q) or not self.longest

    @property
    def segments(self) -> bool:
        return self.contexts is not None or self.targets is not None or self.windowed != 0

    @property
    def windowed(self) -> int:
        return DISTANCE if self.distance >= 0 else HISTORY if self.window > 0 else 0

    @property
    def varlen(self) -> bool:
        return self.key_offsets is not None or self.pages is not None

    @property
    def longest_key(self) -> int:
        return self.most_keys or self.longest

    @property
    def sequences(self) -> int:
        return len(self.offsets) - 1
