import math

import numpy as np
import pytest
import torch

from gr_model.tasks import metrics


def test_ties_count_against_the_target_and_seen_items_do_not_count():
    scores = torch.tensor([[0.5, 0.9, 0.5, 0.5, 0.1]])
    none = torch.zeros(1, 5, dtype=torch.bool)
    assert metrics.target_ranks(scores, torch.tensor([2]), none).tolist() == [4]
    seen = torch.tensor([[True, True, False, False, False]])
    assert metrics.target_ranks(scores, torch.tensor([2]), seen).tolist() == [2]
    # The target stays a candidate even if the user has seen it.
    assert metrics.target_ranks(scores, torch.tensor([1]), seen).tolist() == [1]


def test_ranks_against_sorting():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(50, 200, generator=generator)
    target = torch.randint(200, (50,), generator=generator)
    pairs = zip(scores.tolist(), target.tolist(), strict=True)
    expected = [1 + sorted(row, reverse=True).index(row[t]) for row, t in pairs]
    assert metrics.target_ranks(scores, target, torch.zeros_like(scores, dtype=torch.bool)).tolist() == expected


def test_scores_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        metrics.target_ranks(torch.tensor([[float("nan"), 1.0]]), torch.tensor([1]), torch.zeros(1, 2).bool())


def test_ranking_metrics_by_hand():
    out = metrics.ranking_metrics(np.array([1, 3, 11, 100]))
    assert out["hr@10"] == 0.5 and out["hr@50"] == 0.75
    assert out["ndcg@10"] == pytest.approx((1 + 1 / 2) / 4)
    assert out["ndcg@50"] == pytest.approx((1 + 1 / 2 + 1 / math.log2(12)) / 4)
    assert out["mrr"] == pytest.approx((1 + 1 / 3 + 1 / 11 + 1 / 100) / 4)


def test_auc_against_all_pairs():
    rng = np.random.default_rng(1)
    scores, labels = rng.integers(0, 12, 300) / 4, rng.random(300) < 0.3
    wins = [(p > n) + 0.5 * (p == n) for p in scores[labels] for n in scores[~labels]]
    assert metrics.auc(scores, labels) == pytest.approx(np.mean(wins), abs=1e-12)
    assert math.isnan(metrics.auc(scores, np.ones(300)))
