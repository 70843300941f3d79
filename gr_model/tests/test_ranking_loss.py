"""The whole ranking loss, from ids to a number, against formulas in float64."""

import dataclasses

import numpy as np
import pytest
import torch

from gr_model import config
from gr_model.config import ModelConfig, RankingConfig, TrainConfig
from gr_model.tests import reference
from gr_model.training.trainer import Trainer

CPU = torch.device("cpu")
MODEL = ModelConfig(
    dim=8, heads=2, qk_dim=4, value_dim=4, max_items=16, time_buckets=32, interleave=True, contextual=("age",)
)
HELD_OUT = 3


def arrays(module):
    return {name: value.detach().numpy() for name, value in module.named_parameters()}


# 0: item, action, item, ...; 5: the newest are candidates, and one of the users has too few interactions for a history.
@pytest.mark.parametrize("candidates", [0, 5])
def test_the_ranking_loss_equals_the_formulas_from_ids_to_the_mean(random_data, candidates):
    base = config.Config(
        task="ranking",
        model=MODEL,
        ranking=RankingConfig(held_out=HELD_OUT, candidates=candidates),
        train=TrainConfig(batch=5),
    )
    trainer = Trainer(base, random_data, CPU)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    model = trainer.model.double().eval()
    w = arrays(model.preprocess)
    head = (*(arrays(model.head[0])[name] for name in ("weight", "bias")), *arrays(model.head[1]).values())
    shape = reference.Shape(MODEL.heads, MODEL.qk_dim, MODEL.value_dim, MODEL.max_tokens, MODEL.norm_eps)
    lengths = [len(user) for user in random_data.users]
    users = [int(np.argmin(lengths)), int(np.argmax(lengths)), 7]

    scores, labels = [], []
    for user in users:
        history = random_data.users[user]
        items, actions, times = (part[:-HELD_OUT][-16:] for part in (history.items, history.actions, history.times))
        seen = max(0, len(items) - candidates) if candidates else len(items)
        rows, known_at, shown_at = [w["contextual.0.weight"][history.features[1]]], [times[0]], []
        for place in range(len(items)):
            shown_at.append(len(rows))
            rows.append(w["item.weight"][items[place]])
            known_at.append(times[max(0, min(place, seen) - 1)])
            if place < seen:
                rows.append(w["action.weight"][actions[place]])
                known_at.append(times[place])
        history_tokens = 1 + 2 * seen
        x = np.stack(
            [row * MODEL.dim**0.5 + w["position.weight"][min(at, history_tokens)] for at, row in enumerate(rows)]
        )
        for layer in model.backbone.layers:
            weights = reference.weights_of(layer)
            contexts = 1 if candidates else 0
            x = reference.layer(x, known_at, weights, shape, history_tokens if candidates else None, contexts)
        scored = shown_at[seen:] if candidates else shown_at
        scores += [reference.logits(x[at], *head, MODEL.norm_eps) for at in scored]
        ratings = [action + 1 for action in actions[len(items) - len(scored) :]]
        labels += [[rating >= 4, rating >= 5, rating <= 2] for rating in ratings]
    batch = trainer.task.batch(users, CPU)
    # With float32 labels the loss would be float32 too.
    loss = trainer.task.loss(dataclasses.replace(batch, labels_IT=batch.labels_IT.double())).item()
    assert loss == pytest.approx(reference.cross_entropy(scores, labels), rel=1e-10)
    assert 0.1 < np.mean(labels) < 0.9
