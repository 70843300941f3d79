"""DCN V2 against torchrec's own cross layers and, for its features, against loops over a user's history."""

import dataclasses

import numpy as np
import pytest
import torch
from torchrec.modules.crossnet import LowRankCrossNet

from gr_model import config
from gr_model.config import ModelConfig, RankingConfig, TrainConfig
from gr_model.model.dcn import DCNv2, LowRankCross
from gr_model.tasks import metrics
from gr_model.training.trainer import Trainer

CPU = torch.device("cpu")


def test_cross_layers_equal_torchrecs():
    torch.manual_seed(0)
    ours, theirs = LowRankCross(6, 3, 2).double(), LowRankCrossNet(6, 3, 2).double()
    with torch.no_grad():
        for layer in range(3):
            ours.widen[layer].bias.normal_()
            theirs.V_kernels[layer].copy_(ours.narrow[layer].weight)
            theirs.W_kernels[layer].copy_(ours.widen[layer].weight)
            theirs.bias[layer].copy_(ours.widen[layer].bias)
    x = torch.randn(5, 6, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-12, atol=1e-12)


@pytest.fixture
def trainer(random_data):
    return Trainer(
        config.Config(
            task="ranking",
            model=ModelConfig(backbone="dcn", dim=4, max_items=16, interleave=True, contextual=("age", "gender")),
            ranking=RankingConfig(held_out=3, head="mmoe", hidden=8, rank=2),
            train=TrainConfig(batch=5, lr=1e-2, deterministic=True),
        ),
        random_data,
        CPU,
    )


def test_features_are_of_what_was_known_before(trainer, random_data):
    model = trainer.model
    batch = trainer.task.batch([0, 5, 9], CPU).tokens
    item, action, age, gender = (
        table.weight.detach().numpy()
        for table in (model.preprocess.item, model.preprocess.action, *model.preprocess.contextual)
    )
    expected = []
    for user in (random_data.users[[0, 5, 9][b]] for b in batch.order):
        items, actions = user.items[:-3][-16:], user.actions[:-3][-16:]
        known = [item[v] + action[a] for v, a in zip(items, actions, strict=True)]
        for at, shown in enumerate(items):
            last = known[at - 1] if at else np.zeros(4)
            mean = np.mean(known[:at], axis=0) if at else np.zeros(4)
            gender_id, age_id = user.features
            expected.append(np.concatenate([item[shown], last, mean, age[age_id], gender[gender_id]]))
    np.testing.assert_allclose(model.features(batch).detach().numpy(), expected, rtol=1e-5, atol=1e-7)


def test_it_learns_and_is_evaluated_like_any_ranking_model(trainer):
    assert isinstance(trainer.model, DCNv2)
    losses = [trainer.train_step().loss for _ in range(40)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.02
    names = {f"{name}/{action}" for name in metrics.OF_SCORES for action in ("like", "love", "dislike")}
    assert set(trainer.evaluate()) == names and "auc/like" in names


def test_it_is_refused_where_it_does_not_fit():
    base = config.Config(task="ranking", model=ModelConfig(interleave=True))
    with pytest.raises(config.ConfigError, match="dcn is a model for task=ranking"):
        dataclasses.replace(base, task="retrieval", model=ModelConfig(backbone="dcn"))
    with pytest.raises(config.ConfigError, match="sasrec has no mask for targets"):
        config.override(base, ["model.backbone=sasrec", "ranking.candidates=4"])
