import math

import numpy as np
import pytest
import torch

from gr_model.config import Config, ModelConfig, RankingConfig, TrainConfig
from gr_model.tasks import baselines, evaluation, metrics
from gr_model.training.trainer import Trainer


def ranks(scores, target, seen):
    """By the chunked ranks of the evaluation, with one row of items for each score."""
    row, item = (part.numpy() for part in seen.nonzero(as_tuple=True))
    return evaluation.target_ranks(scores, [torch.eye(scores.shape[1])], target.numpy(), row, item).tolist()


def test_ties_count_against_the_target_and_seen_items_do_not_count():
    scores = torch.tensor([[0.5, 0.9, 0.5, 0.5, 0.1]])
    none = torch.zeros(1, 5, dtype=torch.bool)
    assert ranks(scores, torch.tensor([2]), none) == [4]
    seen = torch.tensor([[True, True, False, False, False]])
    assert ranks(scores, torch.tensor([2]), seen) == [2]
    # The target stays a candidate even if the user has seen it.
    assert ranks(scores, torch.tensor([1]), seen) == [1]


def test_ranks_against_sorting():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(50, 200, generator=generator)
    target = torch.randint(200, (50,), generator=generator)
    pairs = zip(scores.tolist(), target.tolist(), strict=True)
    expected = [1 + sorted(row, reverse=True).index(row[t]) for row, t in pairs]
    assert ranks(scores, target, torch.zeros_like(scores, dtype=torch.bool)) == expected


def test_ranking_metrics_by_hand():
    out = metrics.of_ranks(np.array([1, 3, 11, 100]))
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


def test_a_metric_is_one_line_for_model_and_baseline(random_data, monkeypatch):
    """A metric that is added to a registry is in the evaluation, the baseline and the report, with nothing else."""
    monkeypatch.setitem(metrics.OF_RANKS, "mean rank", lambda ranks: float(ranks.mean()))
    monkeypatch.setitem(metrics.OF_SCORES, "mean score", lambda scores, labels: float(scores.mean()))
    for task, name in (("retrieval", "mean rank"), ("ranking", "mean score/like")):
        config = Config(
            task=task,
            model=ModelConfig(dim=8, qk_dim=8, value_dim=8, max_items=16, interleave=task == "ranking"),
            ranking=RankingConfig(held_out=2),
            train=TrainConfig(batch=6),
        )
        trainer = Trainer(config, random_data, torch.device("cpu"))
        found, (_, expected) = trainer.evaluate(), baselines.baseline(trainer.task)
        name = name.replace("like", config.ranking.tasks[0])
        assert name in found and name in expected and found.keys() == expected.keys()
