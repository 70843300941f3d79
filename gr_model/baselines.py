"""What a model must beat, on the same split and under the same protocol."""

from __future__ import annotations

import numpy as np
import torch

from gr_model import metrics
from gr_model.ranking import TASKS, Ranking
from gr_model.retrieval import Retrieval


def baseline(task: Retrieval | Ranking) -> tuple[str, dict[str, float]]:
    return ("popularity", popularity(task)) if isinstance(task, Retrieval) else ("rating means", rating_means(task))


def popularity(task: Retrieval) -> dict[str, float]:
    """Scores an item by how many of the training interactions it has."""
    known = np.concatenate([user.items[: -task.held_out] for user in task.users])
    targets_I = torch.from_numpy(task.targets(task.users))
    scores_IV = torch.from_numpy(np.bincount(known, minlength=task.data.items)).double().expand(len(targets_I), -1)
    return metrics.ranking_metrics(metrics.target_ranks(scores_IV, targets_I, task.seen(task.users)).numpy())


def rating_means(task: Ranking, shrink: float = 5.0) -> dict[str, float]:
    """Scores by the item's plus the user's mean rating in the training part, each drawn to the global one."""
    held_out, values = task.config.ranking.held_out, np.array(task.data.action_values)
    item = np.concatenate([user.items[:-held_out] for user in task.users])
    rating = np.concatenate([values[user.actions[:-held_out]] for user in task.users])
    centre = rating.mean()
    count = np.bincount(item, minlength=task.data.items)
    item_mean = np.bincount(item, rating - centre, minlength=task.data.items) / (count + shrink)
    scores, labels = [], []
    for user in task.users:
        past = values[user.actions[:-held_out]] - centre
        scores.append(item_mean[user.items[-held_out:]] + past.sum() / (len(past) + shrink))
        labels.append(values[user.actions[-held_out:]])
    score, label = np.concatenate(scores), np.concatenate(labels)
    sign = {"dislike": -1.0}
    return {
        f"auc/{name}": metrics.auc(sign.get(name, 1.0) * score, TASKS[name](label))
        for name in task.config.ranking.tasks
    }
