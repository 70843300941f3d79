"""A training step on a GPU waits for the device only where a loss is shown."""

import importlib.util

import pytest
import torch

from gr_model import config
from gr_model.tests.distributed_program import random_data
from gr_model.training.trainer import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
MODEL = config.ModelConfig(dim=32, heads=2, qk_dim=16, value_dim=16, max_items=30, attention="fused", interleave=True)


HASH = config.EmbeddingConfig(kind="hash", optimizer="adam", lr=0.01)


def trainer_of(task: str, precision: str, biased: bool) -> Trainer:
    base = config.Config(
        task=task,
        model=MODEL,
        train=config.TrainConfig(batch=7, log_every=4, precision=precision),
        ranking=config.RankingConfig(held_out=2),
    )
    settings = [f"model.relative_bias={biased}".lower(), f"model.interleave={task == 'ranking'}".lower()]
    return Trainer(config.override(base, settings), random_data(), torch.device("cuda", 0))


@pytest.mark.parametrize("task", ["ranking", "retrieval"])
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("biased", [False, True])
def test_a_step_does_not_wait(task, precision, biased):
    trainer = trainer_of(task, precision, biased)
    results = [trainer.train_step() for _ in range(4)]  # kernels are compiled and tuned here
    assert all(result.loss_known for result in results)  # the fourth is shown
    torch.cuda.set_sync_debug_mode("error")
    try:
        results = [trainer.train_step() for _ in range(3)]
        assert not any(result.loss_known for result in results)
        assert trainer.train_step().loss_known  # waits for the losses of four, not for this step's backward
        with pytest.raises(RuntimeError, match="synchroniz"):
            results[0].gradient_norm + torch.ones((), device="cuda").item()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("task", ["ranking", "retrieval"])
def test_losses_are_those_of_steps_that_wait(task):
    """Copies from pinned memory, read late, must not see the memory's next use."""
    waiting, ahead = trainer_of(task, "fp32", False), trainer_of(task, "fp32", False)
    expected = []
    for _ in range(40):
        expected.append(waiting.train_step().loss)
        torch.cuda.synchronize()
    results = [ahead.train_step() for _ in range(40)]
    assert [result.loss for result in results] == pytest.approx(expected, rel=1e-4)


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torchrec", "hybrid_torchrec")),
    reason="TorchRec or hybrid_torchrec is not installed",
)
@pytest.mark.parametrize("pipeline", ["none", "sparse_dist"])
@pytest.mark.parametrize("task", ["ranking", "retrieval"])
def test_a_step_with_a_hash_table_does_not_wait(task, pipeline):
    settings = ["train.pipeline=" + pipeline, f"model.interleave={task == 'ranking'}".lower()]
    base = config.Config(
        task=task,
        model=MODEL,
        embedding=HASH,
        train=config.TrainConfig(batch=7, log_every=1000, precision="bf16"),
        ranking=config.RankingConfig(held_out=2),
        retrieval=config.RetrievalConfig(negatives=16),
    )
    trainer = Trainer(config.override(base, settings), random_data(), torch.device("cuda", 0))
    results = trainer.train_steps(trainer.loader().works(0, 40))
    for _ in range(20):  # kernels are compiled, and room is made
        next(results)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(8):
            next(results)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    trainer.read()
