"""Ranking metrics, exact and on the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

CUTOFFS = (10, 50)


def target_ranks(scores_BV: torch.Tensor, target_B: torch.Tensor, seen_BV: torch.Tensor) -> torch.Tensor:
    """Rank, from 1, of each row's target among all items but those seen; the target itself always counts.

    Tie rule: an item with the target's score stands before the target, so that ties never flatter a model.
    """
    if not torch.isfinite(scores_BV).all():
        raise ValueError("scores are not finite")
    target_score_B1 = scores_BV.gather(1, target_B[:, None])
    ahead_BV = (scores_BV >= target_score_B1) & ~seen_BV
    ahead_BV.scatter_(1, target_B[:, None], False)
    return 1 + ahead_BV.sum(1)


def ranking_metrics(ranks: np.ndarray, cutoffs: Sequence[int] = CUTOFFS) -> dict[str, float]:
    """HR@k, NDCG@k and MRR for one relevant item per list."""
    out: dict[str, float] = {}
    for k in cutoffs:
        hit = ranks <= k
        out[f"hr@{k}"] = float(hit.mean())
        out[f"ndcg@{k}"] = float((hit / np.log2(ranks + 1.0)).mean())
    return out | {"mrr": float((1.0 / ranks).mean())}


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """Area under the ROC curve; a tie between a positive and a negative counts half. NaN if a class is empty."""
    labels = labels.astype(bool)
    positives, negatives = int(labels.sum()), int((~labels).sum())
    if not positives or not negatives:
        return float("nan")
    _, group, size = np.unique(scores, return_inverse=True, return_counts=True)
    mid_rank = np.cumsum(size) - (size - 1) / 2
    return float((mid_rank[group][labels].sum() - positives * (positives + 1) / 2) / (positives * negatives))
