"""Stochastic length (section 3.2 of the HSTU paper): training steps that see a part of a long history.

With N the longest history and alpha in (1, 2], a history of n interactions is shown whole if n <= N^(alpha/2) or with
probability N^alpha / n^2, else a random N^(alpha/2) of them in their order. Attention then costs O(N^alpha) on average.
"""

from __future__ import annotations

import numpy as np
import torch

from gr_model.common import draws
from gr_model.config import Config


def shown(count: int, config: Config, step: int, user: int) -> np.ndarray:
    """Indices, ascending, of the `count` interactions of a user that a training step shows.

    With `train.deterministic` they follow from the step and the user, else from torch's generator.
    """
    alpha, train = config.model.stochastic_length, config.train
    if not alpha:
        return np.arange(count)
    if train.deterministic:
        keys = draws.rows(train.seed, step, [user], [count + 1])
        numbers = draws.uniform(keys, draws.LENGTH, 1)[:, 0].numpy()
    else:
        numbers = torch.rand(count + 1).numpy()
    return kept(count, config.model.max_items, alpha, float(numbers[0]), numbers[1:])


def kept(count: int, longest: int, alpha: float, chance: float, weights: np.ndarray) -> np.ndarray:
    """Indices, ascending, of the interactions that are shown; the newest always is.

    `chance` is uniform in [0, 1) and decides between the whole and a part; `weights` [count] are uniform and choose it.
    alpha 0 shows everything.
    """
    part = int(longest ** (alpha / 2)) if alpha else count
    if count <= part or chance < longest**alpha / count**2:
        return np.arange(count)
    order = np.argsort(weights[:-1], kind="stable")[: part - 1]
    return np.append(np.sort(order), count - 1)
