"""The planted rules against what the generator really draws."""

import numpy as np

from gr_model import metrics
from gr_model.data import synthetic


def test_the_rule_of_the_next_item_by_counting():
    """Predicted probabilities are calibrated, and sum to 1."""
    data, rule = synthetic.sequences(users=400, items=24, length=12, genres=3)
    predicted, happened = [], []
    for user in data.users:
        for at in (1, 2, 6, 11):
            chance = rule.next_item(user.items[:at])
            np.testing.assert_allclose(chance.sum(), 1)
            predicted.append(chance)
            happened.append(np.arange(24) == user.items[at])
    predicted, happened = np.concatenate(predicted), np.concatenate(happened)
    for low, high in ((0, 0.02), (0.02, 0.1), (0.1, 0.3), (0.3, 0.55), (0.55, 1.0)):
        part = (predicted >= low) & (predicted < high)
        assert part.sum() > 100
        error = np.sqrt((predicted[part] * (1 - predicted[part])).sum()) / part.sum()
        assert abs(predicted[part].mean() - happened[part].mean()) < 4 * error


def test_the_genre_is_inferred_from_what_the_successors_do_not_explain():
    data, rule = synthetic.sequences(users=50, items=40, length=30, genres=4, follow=0.1, skip=0.1)
    sharp = [np.sort(rule.next_item(u.items) @ (np.arange(40)[:, None] % 4 == np.arange(4)))[-1] for u in data.users]
    assert np.median(sharp) > 0.75


def test_the_rule_of_the_signals_by_counting():
    data, rule = synthetic.actions(users=500, items=20, length=20)
    chance = np.concatenate([rule.probabilities(user) for user in data.users])
    labels = np.stack([data.tasks[name][np.concatenate([u.actions for u in data.users])] for name in data.tasks], 1)
    for t in range(8):
        z = (labels[:, t] - chance[:, t]).sum() / np.sqrt((chance[:, t] * (1 - chance[:, t])).sum())
        assert abs(z) < 4
        calibrated = metrics.auc(chance[:, t], labels[:, t])
        assert 0.65 < calibrated < 0.95
        # A rule without the last action is worse where the last action matters.
    shuffled = np.concatenate([1 / (1 + np.exp(-(rule.item_VT[u.items]))) for u in data.users])
    assert metrics.auc(shuffled[:, 7], labels[:, 7]) < metrics.auc(chance[:, 7], labels[:, 7]) - 0.02


def test_the_same_seed_gives_the_same_data():
    for make in (synthetic.sequences, synthetic.actions):
        a, b, c = (make(users=5, seed=seed)[0] for seed in (1, 1, 2))
        assert all(
            np.array_equal(x.items, y.items) and np.array_equal(x.actions, y.actions) for x, y in zip(a.users, b.users)
        )
        assert any(not np.array_equal(x.items, y.items) for x, y in zip(a.users, c.users))
