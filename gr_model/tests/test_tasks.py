"""Losses and evaluation against plain NumPy, and what a model may not see."""

import dataclasses

import numpy as np
import pytest
import torch

from gr_model import baselines, config, retrieval
from gr_model.config import ConfigError, ModelConfig, RankingConfig, RetrievalConfig, TrainConfig
from gr_model.data.interactions import History
from gr_model.trainer import Trainer

CPU = torch.device("cpu")
SMALL = ModelConfig(dim=8, qk_dim=8, value_dim=8, max_items=16)
TRAIN = TrainConfig(batch=5, deterministic=True)


def trainer_for(task, data, **changes):
    model = dataclasses.replace(SMALL, interleave=task == "ranking", contextual=("age",) if task == "ranking" else ())
    base = config.Config(task=task, model=model, ranking=RankingConfig(held_out=3), train=TRAIN)
    trainer = Trainer(dataclasses.replace(base, **changes), data, CPU)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return trainer


def changed_last(user, **arrays):
    values = {name: getattr(user, name).copy() for name in ("items", "actions", "times")}
    for name, value in arrays.items():
        values[name][-1] = value
    return History(**values, features=user.features)


def test_sampled_softmax_equals_the_formula(random_data):
    trainer = trainer_for("retrieval", random_data, retrieval=RetrievalConfig(negatives=40, temperature=0.1))
    trainer.model.eval()
    batch = trainer.task.batch([0, 1, 2], CPU)
    query = trainer.model.queries(batch.tokens, batch.tokens.last_at_I).detach().double().numpy()
    items = trainer.model.items().detach().double().numpy()
    np.testing.assert_allclose(np.linalg.norm(query, axis=1), 1, rtol=1e-5)
    losses = []
    for q, (target, *negatives) in zip(query, batch.samples_IR.tolist(), strict=True):
        assert target in negatives or len(set(negatives)) <= 30
        kept = [item for item in negatives if item != target]
        logits = np.array([q @ items[item] for item in [target, *kept]]) / 0.1
        losses.append(np.log(np.exp(logits).sum()) - logits[0])
    assert trainer.task.loss(batch).item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_targets_are_the_next_items(random_data):
    trainer = trainer_for("retrieval", random_data)
    batch = trainer.task.batch([3, 4], CPU)
    users = [[3, 4][b] for b in batch.tokens.order]
    known = [random_data.users[user].items[:-1] for user in users]  # the last is for the test
    assert batch.tokens.items_I.tolist() == [item for items in known for item in items[:-1][-16:]]
    assert batch.samples_IR[:, 0].tolist() == [item for items in known for item in items[1:][-16:]]


@pytest.mark.parametrize("samples", [2, 40])
def test_both_ways_to_score_samples_agree(samples, monkeypatch):
    torch.manual_seed(0)
    query, items = torch.randn(7, 5, requires_grad=True), torch.randn(64, 5, requires_grad=True)
    ids = torch.randint(0, 64, (7, samples))
    scores = retrieval.sampled_scores(query, items, ids)
    torch.testing.assert_close(scores, torch.einsum("id,ird->ir", query, items[ids]))
    weights = torch.randn(7, samples)
    actual = torch.autograd.grad((scores * weights).sum(), (query, items))
    expected = torch.autograd.grad((torch.einsum("id,ird->ir", query, items[ids]) * weights).sum(), (query, items))
    torch.testing.assert_close(actual, expected)
    big = torch.randn(1000, 5)
    torch.testing.assert_close(retrieval.sampled_scores(query, big, ids), torch.einsum("id,ird->ir", query, big[ids]))


@pytest.mark.parametrize("mask", ["input", "history"])
def test_evaluation_equals_one_user_at_a_time(random_data, mask):
    trainer = trainer_for("retrieval", random_data, retrieval=RetrievalConfig(mask=mask))
    ranks = []
    for user in random_data.users:
        batch = retrieval.tokens([user[:-1]], [], trainer.config.model, CPU)
        trainer.model.eval()
        query = trainer.model.queries(batch, torch.tensor([batch.sequences.total - 1]))
        scores = (query @ trainer.model.items().T)[0].detach().numpy()
        target = user.items[-1]
        seen = set(user.items[:-1][-16:] if mask == "input" else user.items[:-1]) - {target}
        ranks.append(1 + sum(scores[v] >= scores[target] for v in range(30) if v != target and v not in seen))
    out = trainer.evaluate()
    assert out["mrr"] == pytest.approx(np.mean(1 / np.array(ranks)), rel=1e-6)
    assert out["hr@10"] == pytest.approx(np.mean(np.array(ranks) <= 10))


def test_retrieval_does_not_see_the_target_nor_its_time(random_data):
    trainer = trainer_for("retrieval", random_data)
    before = trainer.model(trainer.task.batch(range(12), CPU)), trainer.task.users
    user = trainer.task.users[0]
    trainer.task.users = [changed_last(user, items=0, times=10**10, actions=0), *trainer.task.users[1:]]
    torch.manual_seed(0)
    a = trainer.task.batch(range(12), CPU)
    trainer.task.users = before[1]
    torch.manual_seed(0)
    b = trainer.task.batch(range(12), CPU)
    assert torch.equal(a.tokens.sequences.times_L, b.tokens.sequences.times_L)
    assert torch.equal(a.tokens.items_I, b.tokens.items_I) and torch.equal(a.samples_IR, b.samples_IR)
    # Evaluation: the input ends before the target, so moving its time changes no metric.
    expected = trainer.evaluate()
    trainer.task.users = [changed_last(user, times=user.times[-1] + 10**7) for user in trainer.task.users]
    assert trainer.evaluate() == expected


def test_a_training_prediction_does_not_see_the_time_of_its_target(random_data):
    """Move the time of interaction i: predictions made before it (targets up to and including i) must not move."""
    for task in ("retrieval", "ranking"):
        trainer = trainer_for(task, random_data)
        trainer.model.eval()
        user = random_data.users[0][:6]
        moved = History(user.items, user.actions, user.times + np.array([0, 0, 0, 0, 0, 10**6]), user.features)

        def outputs(history, trainer=trainer, task=task):
            batch = retrieval.tokens([history], trainer.task.columns, trainer.config.model, CPU)
            x = trainer.model.hstu(trainer.model.preprocess(batch), batch.sequences)
            return x[batch.item_at_I if task == "ranking" else batch.last_at_I]

        same = 6 if task == "ranking" else 5  # ranking predicts at the item itself, retrieval one before it
        assert torch.equal(outputs(user)[:same], outputs(moved)[:same])
        assert task == "ranking" or not torch.equal(outputs(user)[same:], outputs(moved)[same:])


def test_ranking_does_not_see_the_action_it_predicts(random_data):
    trainer = trainer_for("ranking", random_data)
    trainer.model.eval()
    user = random_data.users[2][:8]
    other = changed_last(user, actions=(user.actions[-1] + 1) % 5)
    logits = [
        trainer.model(retrieval.tokens([history], trainer.task.columns, trainer.config.model, CPU))
        for history in (user, other)
    ]
    assert torch.equal(*logits)


def test_ranking_holds_out_the_newest_and_trains_on_the_rest(random_data):
    trainer = trainer_for("ranking", random_data)
    batch = trainer.task.batch([0], CPU)
    user = random_data.users[0]
    assert batch.tokens.items_I.tolist() == user.items[:-3][-16:].tolist()
    ratings = user.actions[:-3][-16:] + 1
    assert batch.labels_IT.tolist() == np.stack([ratings >= 4, ratings >= 5, ratings <= 2], 1).astype(float).tolist()
    whole = retrieval.tokens(random_data.users, trainer.task.columns, trainer.config.model, CPU)
    assert trainer.task.held_out(whole).sum() == 3 * 12
    assert set(trainer.evaluate()) == {"auc/like", "auc/love", "auc/dislike"}


def test_unknown_task_is_refused(random_data):
    with pytest.raises(ConfigError, match="unknown share; valid: like, love, dislike"):
        trainer_for("ranking", random_data, ranking=RankingConfig(tasks=("share",)))


def test_popularity_by_hand(random_data):
    task = trainer_for("retrieval", random_data).task
    counts = np.zeros(30)
    for user in random_data.users:
        np.add.at(counts, user.items[:-1], 1)
    ranks = []
    for user in random_data.users:
        seen, target = set(user.items[:-1][-16:]), user.items[-1]
        ranks.append(1 + sum(counts[v] >= counts[target] for v in range(30) if v != target and v not in seen))
    assert baselines.popularity(task)["mrr"] == pytest.approx(np.mean(1 / np.array(ranks)))
