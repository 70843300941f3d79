"""What a model must beat, on the same split and under the same protocol."""

from __future__ import annotations

import numpy as np

from gr_model.tasks import metrics
from gr_model.tasks.base import Task
from gr_model.tasks.ranking import Ranking
from gr_model.tasks.retrieval import Retrieval


def baseline(task: Task) -> tuple[str, dict[str, float]]:
    """Its name and its metrics: those of the task, by the same registry."""
    if isinstance(task, Retrieval):
        return "popularity", popularity(task)
    if isinstance(task, Ranking):
        return "item and user means", means(task)
    raise TypeError(f"{type(task).__name__} has no baseline")


def popularity(task: Retrieval) -> dict[str, float]:
    """Scores an item by how many of the training interactions it has."""
    score_V = np.zeros(task.data.items, np.int64)
    for user in task.users:
        np.add.at(score_V, user.items[: -task.held_out], 1)
    by_score = np.sort(score_V)
    ranks = []
    for user in task.users:
        target_I = task.targets([user])
        ahead_I = len(by_score) - np.searchsorted(by_score, score_V[target_I])  # with the target itself
        row, item = task.seen([user])
        hidden = (item != target_I[row]) & (score_V[item] >= score_V[target_I[row]])
        ranks.append(ahead_I - np.bincount(row[hidden], minlength=len(target_I)))
    return metrics.of_ranks(np.concatenate(ranks))


def means(task: Ranking, shrink: float = 5.0) -> dict[str, float]:
    """Scores by the item's plus the user's mean label in the training part, each drawn to the global one."""
    held_out, names = task.config.ranking.held_out, task.config.ranking.tasks
    label_AT = np.stack([task.data.tasks[name] for name in names], axis=1).astype(np.float64)
    count_V, sum_VT = np.zeros(task.data.items), np.zeros((task.data.items, len(names)))
    for user in task.users:
        np.add.at(count_V, user.items[:-held_out], 1)
        np.add.at(sum_VT, user.items[:-held_out], label_AT[user.actions[:-held_out]])
    centre_T = sum_VT.sum(0) / max(count_V.sum(), 1)
    item_VT = (sum_VT - count_V[:, None] * centre_T) / (count_V[:, None] + shrink)
    scores, labels = [], []
    for user in task.users:
        past_HT = label_AT[user.actions[:-held_out]] - centre_T
        scores.append(item_VT[user.items[-held_out:]] + past_HT.sum(0) / (len(past_HT) + shrink))
        labels.append(label_AT[user.actions[-held_out:]])
    score_IT, label_IT = np.concatenate(scores), np.concatenate(labels)
    return metrics.of_scores(score_IT, label_IT, names)
