"""The items that a retrieval model recommends next, of the whole catalogue.

Shape suffixes: as in retrieval.py; U users, K items kept of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gr_model.data.interactions import History
from gr_model.model.preprocess import tokens
from gr_model.tasks.retrieval import Retrieval


@torch.no_grad()
def top_items(
    task: Retrieval, chunks: Sequence[torch.Tensor], users: Sequence[History], count: int, device: torch.device
) -> tuple[np.ndarray, np.ndarray]:
    """(item_UK int64, score_UK float32), the best first, for what comes after each history, none of which is empty.

    `chunks` are the rows of all items (`RetrievalModel.item_chunks`). Items of the history are left out as in the
    evaluation (`retrieval.mask`); where fewer than `count` are left, the others have item -1 and score -inf.
    """
    task.model.eval()
    batch = tokens(users, task.columns, task.config.model, device)
    query_UD = task.model.queries(batch, batch.sequences.offsets_B1[1:] - 1)
    ordered = [users[b] for b in batch.order]
    best_UK = torch.full((len(users), count), float("-inf"), device=device)
    item_UK = torch.full((len(users), count), -1, dtype=torch.int64, device=device)
    first = 0
    for items_VD in chunks:
        score_UV = (query_UD @ items_VD.T).float()
        for row, user in enumerate(ordered):
            seen = _seen(task, user) - first
            score_UV[row, torch.from_numpy(seen[(seen >= 0) & (seen < len(items_VD))]).to(device)] = float("-inf")
        ids_V = torch.arange(first, first + len(items_VD), device=device)
        score_UV = torch.cat([best_UK, score_UV], dim=1)
        best_UK, at_UK = score_UV.topk(count, dim=1)
        item_UK = torch.cat([item_UK, ids_V.expand(len(users), -1)], dim=1).gather(1, at_UK)
        first += len(items_VD)
    item_UK = item_UK.masked_fill(best_UK == float("-inf"), -1)
    back = np.argsort(batch.order)
    return item_UK.cpu().numpy()[back], best_UK.cpu().numpy()[back]


def _seen(task: Retrieval, user: History) -> np.ndarray:
    first = None if task.config.retrieval.mask == "history" else -task.config.model.max_items
    return np.unique(user.items[first:])
