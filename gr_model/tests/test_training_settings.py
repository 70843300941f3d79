"""What clipping, the moving average and the learning rate do to a step and to what is evaluated."""

import pytest
import torch

from gr_model import config
from gr_model.config import ModelConfig, TrainConfig
from gr_model.run import checkpoint
from gr_model.training import optimizer
from gr_model.training.trainer import Trainer

CPU = torch.device("cpu")


def small(data, **settings):
    return Trainer(
        config.Config(
            task="retrieval",
            model=ModelConfig(dim=8, qk_dim=8, value_dim=8, max_items=16),
            train=TrainConfig(batch=5, **settings),
        ),
        data,
        CPU,
    )


def norm_of_gradients(trainer):
    return float(torch.cat([p.grad.flatten() for p in trainer.dense.values() if p.grad is not None]).double().norm())


def weights(trainer):
    return [p.detach().double().clone() for p in trainer.dense.values()]


def test_a_long_gradient_is_cut_to_the_bound_and_a_short_one_stays(random_data):
    free = small(random_data)
    free.train_step()
    whole = norm_of_gradients(free)
    for bound, expected in ((whole / 10, whole / 10), (whole * 10, whole)):
        clipped = small(random_data, clip=bound)
        assert clipped.train_step().gradient_norm == pytest.approx(whole, rel=1e-5)
        assert norm_of_gradients(clipped) == pytest.approx(expected, rel=1e-4)
        for a, b in zip(clipped.dense.values(), free.dense.values(), strict=True):
            if b.grad is not None:  # shorter, in the same direction
                torch.testing.assert_close(a.grad, b.grad * (expected / whole), rtol=1e-4, atol=1e-9)


def test_evaluation_is_of_the_averaged_weights_and_training_goes_on_with_its_own(random_data):
    trainer, decay = small(random_data, ema=0.8, lr=3e-2), 0.8
    expected = weights(trainer)
    for step in range(6):
        trainer.train_step()
        share = min(decay, (1 + step) / (10 + step))
        expected = [share * a + (1 - share) * w for a, w in zip(expected, weights(trainer), strict=True)]
    before = weights(trainer)
    found = trainer.evaluate()
    assert all(torch.equal(a, b) for a, b in zip(weights(trainer), before, strict=True))

    with torch.no_grad():
        for parameter, value in zip(trainer.dense.values(), expected, strict=True):
            parameter.copy_(value)
    assert found == trainer.task.evaluate(CPU)
    with torch.no_grad():
        for parameter, value in zip(trainer.dense.values(), before, strict=True):
            parameter.copy_(value)
    assert found != trainer.task.evaluate(CPU)


def test_the_average_goes_on_from_a_checkpoint(random_data, tmp_path):
    whole = small(random_data, ema=0.9)
    for _ in range(6):
        whole.train_step()
    first = small(random_data, ema=0.9)
    for _ in range(3):
        first.train_step()
    checkpoint.save(tmp_path / "c.pt", first.state())
    second = small(random_data, ema=0.9)
    second.load_state(checkpoint.load(tmp_path / "c.pt"))
    for _ in range(3):
        second.train_step()
    assert second.average.steps == whole.average.steps == 6
    for a, b in zip(second.average.average, whole.average.average, strict=True):
        assert torch.equal(a, b)


def test_a_step_is_taken_with_its_own_learning_rate(random_data):
    """The first step of Adam moves every weight by the rate, whatever its gradient."""
    settings = {"lr": 1e-2, "warmup": 4}
    trainer = small(random_data, **settings)
    for step in range(5):
        rate = optimizer.learning_rate(trainer.config.train, step)
        assert trainer.train_step().rate == rate == trainer.optimizer.param_groups[0]["lr"]
        if step == 0:
            start = small(random_data, **settings)
            moved = [(a - b).abs().max() for a, b in zip(weights(trainer), weights(start), strict=True)]
            assert max(moved) == pytest.approx(2.5e-3, rel=1e-3)
