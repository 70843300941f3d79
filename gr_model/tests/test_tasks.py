"""Losses and evaluation against plain NumPy, and what a model may not see."""

import dataclasses

import numpy as np
import pytest
import torch

from gr_model import config
from gr_model.config import ConfigError, ModelConfig, RankingConfig, RetrievalConfig, TrainConfig
from gr_model.data.interactions import History
from gr_model.tasks import baselines, metrics, retrieval
from gr_model.training.trainer import Trainer

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


def test_targets_are_the_next_items(random_data):
    trainer = trainer_for("retrieval", random_data)
    batch = trainer.task.batch([3, 4], CPU)
    users = [[3, 4][b] for b in batch.tokens.order]
    known = [random_data.users[user].items[:-1] for user in users]  # the last is for the test
    assert batch.tokens.items_I.tolist() == [item for items in known for item in items[:-1][-16:]]
    assert batch.samples.targets_I.tolist() == [item for items in known for item in items[1:][-16:]]


def test_random_windows_show_all_of_a_long_history(random_data):
    trainer = trainer_for("retrieval", random_data, retrieval=RetrievalConfig(window="random"))
    user = max(range(12), key=lambda u: len(random_data.users[u]))
    known = random_data.users[user].items[:-1].tolist()
    assert len(known) > 2 * 16
    starts = set()
    for step in range(200):
        batch = trainer.task.batch([user], CPU, step=step)
        shown, targets = batch.tokens.items_I.tolist(), batch.samples.targets_I.tolist()
        assert len(shown) == 16 and shown[1:] == targets[:-1]
        starts |= {at for at in range(len(known) - 16) if known[at : at + 17] == shown + targets[-1:]}
    assert {0, len(known) - 17} <= starts and len(starts) > 5


def test_validation_leaves_the_test_aside(random_data):
    trainer = trainer_for("retrieval", random_data, retrieval=RetrievalConfig(validation=3))
    batch = trainer.task.batch([0], CPU)
    user = random_data.users[0].items
    assert batch.samples.targets_I.tolist() == user[1:-4][-16:].tolist()
    assert trainer.task.targets(trainer.task.users[:1]).tolist() == user[-4:-1].tolist()
    assert "validation on the 3 interactions before the last" in trainer.task.protocol()


@pytest.mark.parametrize("actions", [False, True], ids=["items", "items and actions"])
@pytest.mark.parametrize("mask", ["input", "history"])
def test_validation_equals_one_target_at_a_time(random_data, mask, actions):
    """Each target ranked by a model that was shown what stands before it, and no more."""
    model = dataclasses.replace(SMALL, interleave=actions, contextual=("age",) if actions else ())
    trainer = trainer_for("retrieval", random_data, model=model, retrieval=RetrievalConfig(validation=3, mask=mask))
    trainer.model.eval()
    ranks = []
    for user in random_data.users:
        shown = user[:-2][-16:]  # the input of the newest target; the others see its beginning
        for back in (2, 1, 0):
            inputs = shown[: len(shown) - back]
            batch = retrieval.tokens([inputs], trainer.task.columns, trainer.config.model, CPU)
            query = trainer.model.queries(batch, torch.tensor([batch.sequences.total - 1]))
            scores, target = (query @ trainer.model.items().T)[0].detach().numpy(), user.items[-2 - back]
            known = inputs.items if mask == "input" else user.items[: -2 - back]
            seen = set(known.tolist()) - {int(target)}
            ranks.append(1 + sum(scores[v] >= scores[target] for v in range(30) if v != target and v not in seen))
    assert trainer.task.ranks(CPU).ravel().tolist() == ranks
    out = trainer.evaluate()
    assert out["mrr"] == pytest.approx(np.mean(1 / np.array(ranks)), rel=1e-6)
    assert baselines.popularity(trainer.task)["mrr"] > 0


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
    assert torch.equal(a.tokens.items_I, b.tokens.items_I) and torch.equal(a.samples.targets_I, b.samples.targets_I)
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
            x = trainer.model.backbone(trainer.model.preprocess(batch), batch.sequences)
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
    names = {f"{name}/{action}" for name in metrics.OF_SCORES for action in ("like", "love", "dislike")}
    assert set(trainer.evaluate()) == names and "auc/like" in names


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
