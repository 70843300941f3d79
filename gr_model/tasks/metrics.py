"""Metrics, exact and on the host, and the two registries of what an evaluation calculates.

To add a metric: a function here and its line in OF_RANKS (retrieval) or OF_SCORES (ranking). Evaluation, baseline,
log, report, figures and compare take every line of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np


def of_ranks(ranks: np.ndarray) -> dict[str, float]:
    """The metrics of retrieval, for one relevant item per list; `ranks` are those of the targets, from 1."""
    return {name: metric(ranks) for name, metric in OF_RANKS.items()}


def of_scores(scores_IT: np.ndarray, labels_IT: np.ndarray, tasks: Sequence[str]) -> dict[str, float]:
    """The metrics of ranking, of each task."""
    return {
        f"{name}/{task}": metric(scores_IT[:, t], labels_IT[:, t])
        for t, task in enumerate(tasks)
        for name, metric in OF_SCORES.items()
    }


def hit_rate(ranks: np.ndarray, cutoff: int) -> float:
    return float((ranks <= cutoff).mean())


def ndcg(ranks: np.ndarray, cutoff: int) -> float:
    return float(((ranks <= cutoff) / np.log2(ranks + 1.0)).mean())


def reciprocal_rank(ranks: np.ndarray) -> float:
    return float((1.0 / ranks).mean())


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """Area under the ROC curve; a tie between a positive and a negative counts half. NaN if a class is empty."""
    labels = labels.astype(bool)
    positives, negatives = int(labels.sum()), int((~labels).sum())
    if not positives or not negatives:
        return float("nan")
    _, group, size = np.unique(scores, return_inverse=True, return_counts=True)
    mid_rank = np.cumsum(size) - (size - 1) / 2
    return float((mid_rank[group][labels].sum() - positives * (positives + 1) / 2) / (positives * negatives))


OF_RANKS: dict[str, Callable[[np.ndarray], float]] = {
    "hr@10": partial(hit_rate, cutoff=10),
    "ndcg@10": partial(ndcg, cutoff=10),
    "hr@50": partial(hit_rate, cutoff=50),
    "ndcg@50": partial(ndcg, cutoff=50),
    "mrr": reciprocal_rank,
}
OF_SCORES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {"auc": auc}
