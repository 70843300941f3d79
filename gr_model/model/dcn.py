"""DCN V2 (Wang et al. 2020): crosses of features by low-rank layers, beside a deep network, on the same embeddings.

A ranking model without attention. Features of a shown item: the user's contextual features, the item, the last
interaction, and the mean of all interactions before it. Shape suffixes: I items shown, F features times model dim,
R rank, B users, S longest history, D model dim, C contextual features.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from gr_model.config import Config
from gr_model.model import heads, jagged
from gr_model.model.dropout import Dropout
from gr_model.model.preprocess import Preprocess, Tokens, rows


class LowRankCross(nn.Module):
    """x_{l+1} = x_0 * (W_l (V_l x_l) + b_l) + x_l, with W [F, R] and V [R, F]: section 3.4 of the paper."""

    COMPILED = ("forward",)

    def __init__(self, width: int, layers: int, rank: int) -> None:
        super().__init__()
        self.narrow = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(layers))
        self.widen = nn.ModuleList(nn.Linear(rank, width) for _ in range(layers))
        for linear in (*self.narrow, *self.widen):
            nn.init.xavier_normal_(linear.weight)
        for linear in self.widen:
            nn.init.zeros_(linear.bias)

    def forward(self, first_IF: torch.Tensor) -> torch.Tensor:
        x_IF = first_IF
        for narrow, widen in zip(self.narrow, self.widen):
            x_IF = first_IF * widen(narrow(x_IF)) + x_IF
        return x_IF


class DCNv2(nn.Module):
    """Tokens -> logits_IT; `model.blocks` cross layers and as many deep ones."""

    def __init__(self, config: Config, items: int, actions: int, feature_sizes: Sequence[int]) -> None:
        super().__init__()
        model = config.model
        self.interleave, self.contexts = model.interleave, len(feature_sizes)
        self.preprocess = Preprocess(model, items, actions, feature_sizes, config.embedding)
        width = model.dim * (3 + self.contexts)
        self.cross = LowRankCross(width, model.blocks, config.ranking.rank)
        sizes = [width, *[config.ranking.hidden] * model.blocks]
        self.deep = nn.Sequential(
            *(part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU(), Dropout(model.dropout)))
        )
        self.head = heads.head(config, width + config.ranking.hidden)

    def forward(self, batch: Tokens) -> torch.Tensor:
        x_IF = self.features(batch) * self.preprocess.scale
        return self.head(torch.cat([self.cross(x_IF), self.deep(x_IF)], dim=1)).index_select(0, batch.scored_I)

    def features(self, batch: Tokens) -> torch.Tensor:
        """x_IF; nothing of an interaction's own action, nor of later interactions."""
        rows_UD, (at_I,) = self.preprocess.item.lookup(batch.items_I)
        item_ID = rows_UD.index_select(0, at_I)
        known_ID = (
            item_ID if self.preprocess.action is None else item_ID + rows(self.preprocess.action, batch.actions_I)
        )
        stride = 2 if self.interleave else 1
        counts = [(length - self.contexts) // stride for length in batch.sequences.lengths]
        count_B = torch.tensor(counts, device=item_ID.device)
        offsets_B1, longest = jagged.offsets_of(count_B), max(counts)
        # Shifted by one: what was known before.
        before_BSD = F.pad(jagged.to_padded(known_ID, offsets_B1, longest), (0, 0, 1, 0))[:, :-1]
        number_S1 = torch.arange(longest, device=item_ID.device).clamp(min=1)[:, None]
        mean_BSD = before_BSD.cumsum(1) / number_S1
        past_ID = jagged.to_jagged(torch.cat([before_BSD, mean_BSD], dim=2), offsets_B1, sum(counts))
        parts = [item_ID, past_ID]
        if self.contexts:
            user_I = torch.repeat_interleave(
                torch.arange(len(counts), device=item_ID.device), count_B, output_size=sum(counts)
            )
            for table, ids_B in zip(self.preprocess.contextual, batch.contextual_BC.T, strict=True):
                parts.append(rows(table, ids_B).index_select(0, user_I))
        return torch.cat(parts, dim=1)
