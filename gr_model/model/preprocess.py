"""From histories to tokens: contextual features, interleaved items and actions, candidates, place and time encoded.

Shape suffixes: as in hstu.py; I is the number of interactions of all sequences, C of contextual features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from gr_model.config import EmbeddingConfig, ModelConfig
from gr_model.data.interactions import History
from gr_model.embedding import tables
from gr_model.model import fused_ops, jagged
from gr_model.model.attention.time_buckets import time_bucket
from gr_model.model.dropout import Dropout
from gr_model.model.sequences import Sequences
from gr_model.runtime.transfer import to_device, together


@dataclass(frozen=True)
class Tokens:
    """A batch on the device; `items_I` where the table of items finds ids.

    `order` gives, for each sequence, its place in the list that was passed to `tokens`.
    """

    sequences: Sequences
    order: tuple[int, ...]
    contextual_BC: torch.Tensor
    items_I: torch.Tensor
    actions_I: torch.Tensor
    source_L: torch.Tensor  # row of concat(contextual, items, actions) that the token shows
    position_L: torch.Tensor
    item_at_I: torch.Tensor  # the token of the item
    last_at_I: torch.Tensor  # the interaction's last token: of the action where there is one
    scored_I: torch.Tensor  # the interactions whose actions are to be predicted: candidates, or all

    def of_scored(self, x_I: torch.Tensor) -> torch.Tensor:
        """Of one number for each interaction those of `scored_I`."""
        return x_I if self.sequences.targets is None else x_I.index_select(0, self.scored_I)


def tokens(
    histories: Sequence[History],
    columns: Sequence[int],
    config: ModelConfig,
    device: torch.device,
    candidates: int = 0,
    ids_device: torch.device | None = None,
) -> Tokens:
    """Lays the newest `max_items` interactions of each history out as tokens, the longest sequence first.

    The time of a token is when it became known. An action has its own time; the item before it was shown without
    anyone knowing when the action would come, so it has the time of the interaction before. Thus no prediction,
    whether of the next item or of an item's action, sees the time of what it predicts.

    `ids_device`: of the items' ids, where it is not `device`.

    With `candidates` the newest so many interactions of each history are items without actions at its end, all at the
    place and time of what was known before the first of them; contextual tokens then see the whole history.
    """
    if any(len(history) == 0 for history in histories):
        raise ValueError("a history needs at least one interaction")
    histories = [history[-config.max_items :] for history in histories]
    order = sorted(range(len(histories)), key=lambda b: -len(histories[b]))
    histories = [histories[b] for b in order]

    stride, context = (2 if config.interleave else 1), len(columns)
    counts_B = np.array([len(history) for history in histories])
    targets_B = np.minimum(counts_B, candidates)
    history_B = counts_B - targets_B
    lengths_B = context + stride * history_B + targets_B
    start_B = np.cumsum(lengths_B) - lengths_B
    run_I = np.arange(counts_B.sum())
    time_I = np.concatenate([history.times for history in histories])
    first_B = np.cumsum(counts_B) - counts_B
    if candidates:
        row_I = np.repeat(np.arange(len(histories)), counts_B)
        index_I = run_I - first_B[row_I]
        passed_I = np.minimum(index_I, history_B[row_I])  # interactions of the history before it
        item_at_I = start_B[row_I] + context + stride * passed_I + index_I - passed_I
        last_at_I = item_at_I + np.where(index_I >= history_B[row_I], 0, stride - 1)
        before_I = time_I[first_B[row_I] + np.maximum(passed_I - 1, 0)]
        acted, scored_I = np.flatnonzero(index_I < history_B[row_I]), np.flatnonzero(index_I >= history_B[row_I])
    else:  # the same without candidates, by fewer indices
        item_at_I = stride * run_I + np.repeat(context * np.arange(1, len(histories) + 1), counts_B)
        last_at_I = item_at_I + stride - 1
        before_I = np.concatenate([time_I[:1], time_I[:-1]])
        before_I[first_B] = time_I[first_B]
        acted = scored_I = run_I
    times_L = np.empty(lengths_B.sum(), np.int64)
    source_L = np.empty_like(times_L)
    context_at = (start_B[:, None] + np.arange(context)).ravel()
    times_L[context_at] = np.repeat([history.times[0] for history in histories], context)
    times_L[item_at_I] = before_I if config.interleave else time_I
    source_L[context_at] = np.arange(context_at.size)
    source_L[item_at_I] = context_at.size + run_I
    if config.interleave:
        times_L[last_at_I[acted]] = time_I[acted]
        source_L[last_at_I[acted]] = context_at.size + len(run_I) + acted

    position_L = np.arange(lengths_B.sum()) - np.repeat(start_B, lengths_B)
    arrays = {
        "contextual_BC": np.stack([history.features[list(columns)] for history in histories]),
        "actions_I": np.concatenate([history.actions for history in histories]),
        "source_L": source_L,
        "position_L": np.minimum(position_L, np.repeat(lengths_B - targets_B, lengths_B)),
        "item_at_I": item_at_I,
        "last_at_I": last_at_I,
        "scored_I": scored_I,
    }
    items_I = np.ascontiguousarray(np.concatenate([history.items for history in histories]), np.int64)
    if ids_device is None or ids_device == device:
        arrays["items_I"] = items_I
    on_device = dict(
        zip(("lengths_B", "times_L", *arrays), together([lengths_B, times_L, *arrays.values()], device), strict=True)
    )
    if "items_I" not in arrays:
        on_device["items_I"] = to_device(items_I, ids_device or device)
    return Tokens(
        sequences=Sequences(
            jagged.offsets_of(on_device.pop("lengths_B")),
            on_device.pop("times_L"),
            tuple(lengths_B.tolist()),
            targets=tuple(targets_B.tolist()) if candidates else None,
            contexts=context if candidates else 0,
        ),
        order=tuple(order),
        **on_device,
    )


def rows(table: nn.Embedding, ids: torch.Tensor) -> torch.Tensor:
    """table(ids). By index_select, whose backward is several times faster on a CPU; on a GPU it adds by atomics, which
    wait for each other where rows are few."""
    return table(ids) if ids.is_cuda else table.weight.index_select(0, ids)


class Timestamps(nn.Module):
    """A learned vector for each part of a token's time: since the token before, hour of the day, day of the week.

    All of them are known with the token; the time until a later one, as some implementations encode, is not.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        sizes = {"gap": config.time_buckets, "hour": 24, "weekday": 7}
        self.parts = nn.ModuleDict({name: nn.Embedding(sizes[name], config.dim) for name in config.timestamps})

    def forward(self, batch: Tokens) -> list[torch.Tensor]:
        return [rows(table, self.codes_L(name, batch)) for name, table in self.parts.items()]

    def codes_L(self, name: str, batch: Tokens) -> torch.Tensor:
        """int64; in UTC, Monday is 0."""
        times_L = batch.sequences.times_L
        if name == "gap":
            since_L = (times_L - times_L.roll(1)).masked_fill(batch.position_L == 0, 0)
            return time_bucket(since_L, self.config).long()
        days_L = times_L.div(86400, rounding_mode="floor")
        if name == "hour":
            return (times_L - days_L * 86400).div(3600, rounding_mode="floor")
        return (days_L + 3).remainder(7)


class Preprocess(nn.Module):
    """Tokens -> x_LD."""

    def __init__(
        self,
        config: ModelConfig,
        items: int,
        actions: int,
        feature_sizes: Sequence[int],
        embedding: EmbeddingConfig | None = None,
    ) -> None:
        super().__init__()
        self.scale = config.dim**0.5
        self.item = tables.make(embedding or EmbeddingConfig(), items, config.dim)
        self.action = nn.Embedding(actions, config.dim) if config.interleave else None
        self.contextual = nn.ModuleList(nn.Embedding(size, config.dim) for size in feature_sizes)
        self.position = nn.Embedding(config.max_tokens, config.dim)
        self.timestamps = Timestamps(config)
        self.dropout = Dropout(config.dropout)
        for parameter in (p for p in self.parameters() if not p.is_meta):
            nn.init.trunc_normal_(parameter, std=0.02)
        nn.init.trunc_normal_(self.position.weight, std=config.dim**-0.5)

    def forward(self, batch: Tokens, items_ID: torch.Tensor | None = None) -> torch.Tensor:
        """`items_ID`: the rows of the batch's items, where they were looked up already."""
        contextual_CD = self._contextual(batch)
        if items_ID is None:
            rows_UD, (at_I,) = self.item.lookup(batch.items_I)
            if self._fused(batch, rows_UD):
                return self._embedded(batch, contextual_CD, rows_UD, at_I)
            items_ID = rows_UD.index_select(0, at_I)
        parts = [items_ID] if contextual_CD is None else [contextual_CD, items_ID]
        if self.action is not None:
            parts.append(rows(self.action, batch.actions_I))
        shown_LD = torch.cat(parts).index_select(0, batch.source_L)
        encoded_LD = rows(self.position, batch.position_L)
        for time_LD in self.timestamps(batch):
            encoded_LD = encoded_LD + time_LD
        return self.dropout(shown_LD * self.scale + encoded_LD)

    def _contextual(self, batch: Tokens) -> torch.Tensor | None:
        if not self.contextual:
            return None
        columns = [rows(table, ids) for table, ids in zip(self.contextual, batch.contextual_BC.T, strict=True)]
        return torch.stack(columns, dim=1).flatten(0, 1)

    def _fused(self, batch: Tokens, rows_UD: torch.Tensor) -> bool:
        """Places of targets are not their numbers in the sequence, and timestamps have tables of their own."""
        simple = batch.sequences.targets is None and not self.timestamps.parts and not self.dropout.from_host
        actions = [] if self.action is None else [self.action.weight]
        return simple and fused_ops.embeds_tokens(rows_UD, self.position.weight, *actions)

    def _embedded(
        self, batch: Tokens, contextual_CD: torch.Tensor | None, rows_UD: torch.Tensor, at_I: torch.Tensor
    ) -> torch.Tensor:
        p = self.dropout.p if self.training else 0.0
        return fused_ops.embedded(
            contextual_CD,
            rows_UD,
            at_I,
            None if self.action is None else self.action.weight,
            batch.actions_I,
            self.position.weight,
            batch.source_L,
            batch.position_L,
            batch.sequences.offsets_B1,
            batch.sequences.longest,
            self.scale,
            p,
            int(torch.randint(2**62, ())) if p else 0,
        )
