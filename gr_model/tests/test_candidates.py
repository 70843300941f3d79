"""Candidates of one list, stochastic length, recomputation and bfloat16, on small models."""

import dataclasses

import numpy as np
import pytest
import torch

from gr_model import config
from gr_model.config import ModelConfig, RankingConfig, RetrievalConfig, TrainConfig
from gr_model.data.interactions import History
from gr_model.model.preprocess import tokens
from gr_model.tasks import metrics, stochastic_length
from gr_model.training.trainer import Trainer

CPU = torch.device("cpu")
MODEL = ModelConfig(dim=8, qk_dim=8, value_dim=8, max_items=16, interleave=True, contextual=("age",), dropout=0.0)


def trainer_for(data, task="ranking", model=None, ranking=None, train=None, retrieval=None):
    base = config.Config(
        task=task,
        model=dataclasses.replace(MODEL, **(model or {})),
        ranking=RankingConfig(**{"held_out": 3, "candidates": 4, **(ranking or {})}),
        retrieval=retrieval or RetrievalConfig(),
        train=TrainConfig(**{"batch": 5, "deterministic": True, **(train or {})}),
    )
    return Trainer(base, data, CPU)


def history(items, times, features=(1, 2)):
    array = np.array
    return History(array(items), array(items) % 5, array(times), array(features))


def test_layout_with_candidates():
    both = [history([6], [5], (3, 4)), history([1, 2, 7, 8], [10, 20, 30, 40])]
    batch = tokens(both, [1], dataclasses.replace(MODEL, contextual=("a",)), CPU, candidates=2)
    # ctx 1 action 2 action 7 8 | ctx 6
    assert batch.sequences.lengths == (7, 2)
    assert batch.sequences.targets == (2, 1) and batch.sequences.contexts == 1
    assert batch.source_L.tolist() == [0, 2, 7, 3, 8, 4, 5, 1, 6]
    assert batch.position_L.tolist() == [0, 1, 2, 3, 4, 5, 5, 0, 1]
    # Candidates are shown when the last action of the history was known.
    assert batch.sequences.times_L.tolist() == [10, 10, 10, 10, 20, 20, 20, 5, 5]
    assert batch.item_at_I.tolist() == [1, 3, 5, 6, 8] and batch.last_at_I.tolist() == [2, 4, 5, 6, 8]
    assert batch.scored_I.tolist() == [2, 3, 4]


@pytest.mark.parametrize("kind", ["plain", "fused"])
def test_a_candidate_is_scored_as_if_it_were_alone(random_data, kind):
    trainer = trainer_for(random_data, model={"attention": kind})
    trainer.model.eval()
    user = random_data.users[3][:9]
    together = trainer.model(tokens([user], [1], trainer.config.model, CPU, candidates=4))
    for index in range(4):
        alone = History(
            *(np.append(a[:5], a[5 + index]) for a in (user.items, user.actions, user.times)), user.features
        )
        logits = trainer.model(tokens([alone], [1], trainer.config.model, CPU, candidates=1))
        torch.testing.assert_close(logits[0], together[index], rtol=1e-5, atol=1e-6)


def test_neither_actions_nor_times_of_candidates_are_seen(random_data):
    trainer = trainer_for(random_data)
    trainer.model.eval()
    user = random_data.users[3][:9]
    actions, times = user.actions.copy(), user.times.copy()
    actions[5:], times[5:] = (actions[5:] + 1) % 5, times[5:] + 10**6
    other = History(user.items, actions, times, user.features)
    logits = [trainer.model(tokens([h], [1], trainer.config.model, CPU, candidates=4)) for h in (user, other)]
    assert torch.equal(*logits)


def test_loss_and_evaluation_are_of_the_candidates(random_data):
    trainer = trainer_for(random_data)
    batch = trainer.task.batch([0, 1], CPU)
    known = [random_data.users[[0, 1][b]] for b in batch.tokens.order]
    actions = np.concatenate([user.actions[:-3][-4:] for user in known])
    assert batch.labels_IT[:, 0].tolist() == (actions + 1 >= 4).tolist()
    assert trainer.train_step().loss > 0
    names = {f"{name}/{action}" for name in metrics.OF_SCORES for action in ("like", "love", "dislike")}
    assert set(trainer.evaluate()) == names and "auc/like" in names
    assert "candidates of one list" in trainer.task.protocol()


def test_stochastic_length_keeps_what_the_paper_says():
    rng = np.random.default_rng(0)
    longest, alpha = 100, 1.5  # 100 ** 0.75 = 31
    short = stochastic_length.kept(31, longest, alpha, 0.999, rng.random(31))
    assert short.tolist() == list(range(31))
    whole, counts = 0, np.zeros(80)
    for _ in range(3000):
        kept = stochastic_length.kept(80, longest, alpha, rng.random(), rng.random(80))
        assert (np.diff(kept) > 0).all() and kept[-1] == 79 and len(kept) in (31, 80)
        whole += len(kept) == 80
        counts[kept] += len(kept) == 31
    chance = 100**1.5 / 80**2
    assert abs(whole / 3000 - chance) < 4 * np.sqrt(chance / 3000)
    share = counts[:-1] / (3000 - whole)
    np.testing.assert_allclose(share, 30 / 79, atol=0.06)


def test_stochastic_length_in_both_tasks(random_data):
    """Retrieval: the target of a shown interaction is what really came next. Ranking: candidates stay."""
    trainer = trainer_for(
        random_data, "retrieval", {"stochastic_length": 1.2, "contextual": (), "interleave": False}, {"candidates": 0}
    )
    user = max(range(12), key=lambda u: len(random_data.users[u]))
    known = random_data.users[user].items[:-1].tolist()
    assert len(known) > 17
    pairs = set(zip(known, known[1:], strict=False))
    shorter = 0
    for step in range(20):
        batch = trainer.task.batch([user], CPU, step=step)
        shown = list(zip(batch.tokens.items_I.tolist(), batch.samples.targets_I.tolist(), strict=True))
        assert set(shown) <= pairs and shown[-1] == (known[-2], known[-1])
        shorter += len(shown) < 16
        assert len(shown) in (5, 16)  # 16 ** 0.6 = 5
    assert 10 <= shorter <= 20
    ranking = trainer_for(random_data, model={"stochastic_length": 1.2})
    newest = random_data.users[user].items[:-3][-4:].tolist()
    sizes = set()
    for step in range(20):
        batch = ranking.task.batch([user], CPU, step=step)
        assert batch.tokens.items_I[-4:].tolist() == newest
        sizes.add(len(batch.tokens.items_I))
    assert 9 in sizes and len(sizes) <= 2
    assert len(trainer_for(random_data).task.batch([user], CPU).tokens.items_I) == 16


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("backbone", ["hstu", "sasrec"])
def test_recomputation_changes_no_bit(random_data, backbone, deterministic):
    losses = []
    for recompute in (False, True):
        model = {"recompute": recompute, "dropout": 0.3, "backbone": backbone}
        train = {"lr": 1e-2, "deterministic": deterministic}
        trainer = trainer_for(random_data, model=model, train=train, ranking={"candidates": 0})
        losses.append([trainer.train_step().loss for _ in range(4)])
    assert losses[0] == losses[1] and len(set(losses[0])) == 4


@pytest.mark.parametrize("backbone", ["hstu", "sasrec"])
def test_recomputation_keeps_less_and_calls_each_layer_twice(random_data, backbone):
    calls, kept = {}, {}
    for recompute in (False, True):
        model = {"recompute": recompute, "backbone": backbone, "blocks": 3}
        trainer = trainer_for(random_data, model=model, ranking={"candidates": 0})
        batch, sizes, called = trainer.task.batch([0, 1, 2], CPU), [], []
        for layer in trainer.model.backbone.layers:
            layer.attention_norm.register_forward_hook(lambda *_, at=called: at.append(1))
        with torch.autograd.graph.saved_tensors_hooks(lambda x, at=sizes: at.append(x.nbytes) or x, lambda x: x):
            loss = trainer.task.loss(batch)
        assert len(called) == 3
        loss.backward()
        calls[recompute], kept[recompute] = len(called), sum(sizes)
    assert calls == {False: 3, True: 6}
    assert kept[True] < 0.5 * kept[False]


def test_recomputation_is_refused_where_there_is_none(random_data):
    with pytest.raises(config.ConfigError, match="model.recompute: dcn has no layers over tokens"):
        trainer_for(random_data, model={"recompute": True, "backbone": "dcn"}, ranking={"candidates": 0})


@pytest.mark.parametrize("kind", ["plain", "fused"])
def test_bfloat16_trains_like_float32(random_data, kind):
    for task, ranking in (("ranking", {}), ("retrieval", {"candidates": 0})):
        losses = {}
        for precision in ("fp32", "bf16"):
            model = {
                "attention": kind,
                "contextual": () if task == "retrieval" else ("age",),
                "interleave": task == "ranking",
            }
            train = {"precision": precision, "lr": 5e-3}
            trainer = trainer_for(random_data, task, model, ranking, train)
            losses[precision] = [trainer.train_step().loss for _ in range(6)]
            assert all(p.dtype == torch.float32 for p in trainer.model.parameters())
        np.testing.assert_allclose(losses["bf16"], losses["fp32"], rtol=2e-2)
        assert losses["bf16"] != losses["fp32"]


@pytest.mark.parametrize("backbone", ["sasrec", "dcn"])
def test_models_without_a_gate_refuse_to_read_it(random_data, backbone):
    with pytest.raises(config.ConfigError, match=f"model.concat_ua: {backbone} has no gate; valid with hstu"):
        trainer_for(random_data, model={"concat_ua": True, "backbone": backbone}, ranking={"candidates": 0})
