"""Ranks of targets among all items, computed chunk by chunk of the catalogue. Shape suffixes: as in retrieval.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

CELLS = 1 << 26  # scores at a time: 256 MB


def target_ranks(
    query_ID: torch.Tensor,
    chunks: Sequence[torch.Tensor],
    target_I: np.ndarray,
    seen_row: np.ndarray,
    seen_item: np.ndarray,
) -> np.ndarray:
    """[I] int64: the rank, from 1, of each row's target among all items but those that the row has seen.

    `chunks` are the rows of all items, in order; (seen_row, seen_item) names what does not count, each pair once. The
    target always counts, and an item with the target's score stands before it: ties never flatter a model. So that a
    tie is one in every bit, the target's score is read from the same matrix product as all others. ValueError for
    scores that are not finite.
    """
    parts = _parts(chunks, len(query_ID))
    target = torch.from_numpy(target_I).to(query_ID.device)
    score_I = torch.empty(len(query_ID), device=query_ID.device, dtype=query_ID.dtype)
    first = 0
    for items_VD in parts:
        inside = (target >= first) & (target < first + len(items_VD))
        if bool(inside.any()):
            scores_IV = query_ID @ items_VD.T
            row = inside.nonzero().squeeze(1)
            score_I[row] = scores_IV[row, target[row] - first]
        first += len(items_VD)

    ahead_I = torch.zeros(len(query_ID), dtype=torch.int64, device=query_ID.device)
    first = 0
    order = np.argsort(seen_item, kind="stable")
    seen_row, seen_item = seen_row[order], seen_item[order]
    for items_VD in parts:
        scores_IV = query_ID @ items_VD.T
        if not bool(torch.isfinite(scores_IV).all()):
            raise ValueError("scores are not finite")
        low, high = np.searchsorted(seen_item, (first, first + len(items_VD)))
        row = torch.from_numpy(seen_row[low:high]).to(query_ID.device)
        item = torch.from_numpy(seen_item[low:high] - first).to(query_ID.device)
        ahead_IV = scores_IV >= score_I[:, None]
        ahead_IV[row, item] = False
        ahead_I += ahead_IV.sum(1)
        first += len(items_VD)
    # The target itself was counted, unless it had been seen before.
    seen_before = np.bincount(seen_row[seen_item == target_I[seen_row]], minlength=len(target_I))
    return ahead_I.cpu().numpy() + seen_before


def _parts(chunks: Sequence[torch.Tensor], queries: int) -> list[torch.Tensor]:
    """Of at most CELLS scores each."""
    return [part for chunk in chunks for part in chunk.split(max(1, CELLS // max(1, queries)))]
