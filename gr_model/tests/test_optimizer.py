"""The learning rate over time, the averaged weights, and which parameters decay."""

import math

import pytest
import torch

from gr_model.config import TrainConfig
from gr_model.training import optimizer
from gr_model.training.pieces import Pieces


def test_learning_rate_warms_up_and_follows_half_a_cosine():
    config = TrainConfig(lr=2.0, warmup=4, steps=12, schedule="cosine")
    rates = [optimizer.learning_rate(config, step) for step in (0, 1, 3, 4, 8, 12, 20)]
    assert rates == pytest.approx([0.5, 1.0, 2.0, 2.0, 1.0, 0.0, 0.0])
    assert optimizer.learning_rate(config, 6) == pytest.approx(1 + math.cos(math.pi / 4))
    constant = TrainConfig(lr=2.0, warmup=2, steps=12)
    assert [optimizer.learning_rate(constant, step) for step in (0, 1, 5, 100)] == [1.0, 2.0, 2.0, 2.0]


def test_vectors_do_not_decay():
    model = torch.nn.Linear(3, 2)
    decaying, kept = optimizer.adamw(model.parameters(), TrainConfig(weight_decay=0.3)).param_groups
    assert decaying["params"] == [model.weight] and decaying["weight_decay"] == 0.3
    assert kept["params"] == [model.bias] and kept["weight_decay"] == 0


def test_the_average_by_hand():
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    average, expected = optimizer.MovingAverage(Pieces([weight]), decay=0.5), 1.0
    for step, value in enumerate((2.0, 4.0, 8.0, 3.0, 5.0, 7.0, 1.0, 6.0, 2.0)):
        weight.data.fill_(value)
        average.update()
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    with average.in_place():
        assert weight.item() == pytest.approx(expected)
    assert weight.item() == 2.0
