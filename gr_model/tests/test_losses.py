"""The whole retrieval loss, from ids to a number, against formulas in float64; and the ways to draw negatives."""

import dataclasses

import numpy as np
import pytest
import torch

from gr_model import config
from gr_model.config import ModelConfig, RetrievalConfig, TrainConfig
from gr_model.model import fused_ops, jagged
from gr_model.tasks import losses
from gr_model.tests import reference
from gr_model.training.trainer import Trainer

CPU = torch.device("cpu")
MODEL = ModelConfig(dim=8, heads=2, qk_dim=4, value_dim=4, max_items=16, time_buckets=32)


def trainer_for(data, retrieval=None, deterministic=True, **model):
    base = config.Config(
        task="retrieval",
        model=dataclasses.replace(MODEL, **model),
        retrieval=retrieval or RetrievalConfig(negatives=40, temperature=0.1, share=7),
        train=TrainConfig(batch=5, deterministic=deterministic),
    )
    trainer = Trainer(base, data, CPU)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return trainer


@pytest.mark.parametrize("kind", ["plain", "fused"])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("in_batch", [0, 25])
def test_the_loss_equals_the_formulas_from_ids_to_the_mean(random_data, kind, deterministic, in_batch):
    retrieval = RetrievalConfig(negatives=40, in_batch=in_batch, temperature=0.1, share=7)
    trainer = trainer_for(random_data, retrieval, attention=kind, deterministic=deterministic)
    model = trainer.model.double().eval()
    users = [1, 4, 7]
    batch = trainer.task.batch(users, CPU)
    table = model.preprocess.item.weight.detach().numpy()
    position = model.preprocess.position.weight.detach().numpy()
    shape = reference.Shape(MODEL.heads, MODEL.qk_dim, MODEL.value_dim, MODEL.max_tokens, MODEL.norm_eps)

    queries, targets, counts = [], [], []
    for user in sorted(users, key=lambda u: -min(16, len(random_data.users[u]) - 2)):
        known = random_data.users[user].items[:-1][-17:]
        times = random_data.users[user].times[:-1][-17:]
        x = np.stack([table[item] * MODEL.dim**0.5 + position[at] for at, item in enumerate(known[:-1])])
        for layer in model.backbone.layers:
            x = reference.layer(x, times[:-1], reference.weights_of(layer), shape)
        queries += list(x)
        targets += known[1:].tolist()
        counts.append(len(known) - 1)
    # 7 tokens or fewer share a row of negatives; the groups are as even as can be.
    rows = batch.samples.negatives_GR.tolist()
    if deterministic:  # and only tokens of one user do
        row_of = [sum(-(-n // 7) for n in counts[:b]) + i // 7 for b, count in enumerate(counts) for i in range(count)]
        assert len(rows) == sum(-(-n // 7) for n in counts)
    else:
        size = -(-len(targets) // len(rows))
        assert size <= 7 and len(rows) == -(-len(targets) // 7)
        row_of = [i // size for i in range(len(targets))]
    negatives = [rows[row] for row in row_of]
    assert any(target in drawn for target, drawn in zip(targets, negatives, strict=True))
    assert len(rows[0]) == 40 + in_batch and all(set(row[40:]) <= set(targets) for row in rows)
    expected = reference.sampled_softmax(queries, targets, negatives, table, 0.1, in_batch)
    # The correction is in float32.
    assert trainer.task.loss(batch).item() == pytest.approx(expected, rel=1e-7 if in_batch else 1e-10)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("in_batch", [0, 25])
def test_the_operators_loss_has_the_gradients_of_pytorchs(random_data, monkeypatch, deterministic, in_batch):
    retrieval = RetrievalConfig(negatives=40, in_batch=in_batch, temperature=0.1, share=7)
    trainer = trainer_for(random_data, retrieval, attention="fused", deterministic=deterministic)
    model = trainer.model.double().eval()
    batch = trainer.task.batch([1, 4, 7], CPU)
    called, operator = [], losses.fused_softmax
    monkeypatch.setattr(losses, "fused_softmax", lambda *arguments: called.append(1) or operator(*arguments))
    found = []
    for there in (True, False):
        if not there:
            monkeypatch.setattr(fused_ops, "has_sampled_softmax", lambda *tensors: False)
        model.zero_grad()
        loss = trainer.task.loss(batch)
        loss.backward()
        found.append([loss.detach(), *(parameter.grad for parameter in model.parameters())])
    assert called == [1]
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-10)


def test_where_the_operators_loss_is_taken():
    jagged.load_operators(CPU)
    x, rows = torch.ones(2, 4), torch.ones(3, 4)
    assert fused_ops.has_sampled_softmax(x, rows)
    assert not fused_ops.has_sampled_softmax(x, rows.bfloat16())
    assert not fused_ops.has_sampled_softmax(x.to("meta"), rows.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not fused_ops.has_sampled_softmax(x, rows)


@pytest.mark.parametrize("tokens", [1, 6, 7, 8, 23])
def test_groups_cover_every_token_and_gradients_are_right(tokens):
    torch.manual_seed(tokens)
    items = torch.randn(12, 5, dtype=torch.float64)
    samples = losses.draw(torch.randint(12, (tokens,)), 12, uniform=6, in_batch=0, group=7)

    def run(query, table):
        return losses.sampled_softmax(query, lambda ids: table.index_select(0, ids), samples, 0.5)

    query = torch.randn(tokens, 5, dtype=torch.float64)
    logits = query @ items.T / 0.5
    size = -(-tokens // len(samples.negatives_GR))
    expected = []
    for i, target in enumerate(samples.targets_I.tolist()):
        drawn = [v for v in samples.negatives_GR[i // size].tolist() if v != target]
        expected.append(logits[i, [target, *drawn]].logsumexp(0) - logits[i, target])
    assert run(query, items).item() == pytest.approx(torch.stack(expected).mean().item(), rel=1e-6)


def test_gradients_by_finite_differences():
    torch.manual_seed(0)
    samples = losses.draw(torch.randint(9, (10,)), 9, uniform=4, in_batch=3, group=4)
    query, table = torch.randn(10, 3, dtype=torch.float64), torch.randn(9, 3, dtype=torch.float64)

    def run(query, table):
        return losses.sampled_softmax(query, lambda ids: table.index_select(0, ids), samples, 0.7)

    assert torch.autograd.gradcheck(run, (query.requires_grad_(), table.requires_grad_()))


def test_all_negatives_may_be_accidents():
    samples = losses.Samples(torch.tensor([2, 2]), torch.tensor([[2, 2, 2]]))
    query = torch.randn(2, 4, requires_grad=True)
    loss = losses.sampled_softmax(query, lambda ids: torch.ones(len(ids), 4), samples, 0.1)
    loss.backward()
    assert loss.item() == 0 and torch.equal(query.grad, torch.zeros(2, 4))


def test_both_kinds_of_negatives_estimate_one_softmax():
    """Many draws: the sum over corrected in-batch negatives is that over uniform ones, item by item."""
    torch.manual_seed(0)
    items, many = 6, 200_000
    targets = torch.tensor([0] * 60 + [1] * 25 + [2] * 10 + [3] * 5)
    samples = losses.draw(targets, items, uniform=many, in_batch=many, group=1000)
    weight = samples.correction_GR.exp()[0]
    drawn = samples.negatives_GR[0]
    uniform = torch.bincount(drawn[:many], weights=weight[:many], minlength=items) / many
    popular = torch.bincount(drawn[many:], weights=weight[many:], minlength=items) / many
    torch.testing.assert_close(uniform, torch.full((items,), 1 / 6), rtol=0.02, atol=0)
    torch.testing.assert_close(popular, torch.tensor([1 / 6] * 4 + [0.0, 0.0]), rtol=0.05, atol=0)


def test_of_a_large_table_only_the_rows_are_normalised(random_data):
    model = trainer_for(random_data).model
    ids = torch.tensor([3, 3, 29])
    torch.testing.assert_close(model.item_rows(ids), model.items()[ids])
    torch.testing.assert_close(model.item_rows(ids.repeat(20)), model.items()[ids.repeat(20)])
