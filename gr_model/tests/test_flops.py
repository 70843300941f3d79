import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from gr_model.config import Config, ModelConfig, RankingConfig, RetrievalConfig, TrainConfig
from gr_model.model import flops
from gr_model.training.trainer import Trainer

CPU = torch.device("cpu")


def test_equals_what_pytorch_counts(random_data):
    """PyTorch's own count of one step; its attention here is over whole squares, ours over half of each."""
    config = Config(
        task="retrieval",
        model=ModelConfig(dim=16, qk_dim=8, value_dim=8, heads=2, blocks=2, max_items=64, dropout=0),
        retrieval=RetrievalConfig(negatives=20, share=1000),
        train=TrainConfig(batch=1),
    )
    trainer = Trainer(config, random_data, CPU)
    lengths = trainer.task.batch(trainer.users_of_step(0), CPU).tokens.sequences.lengths
    with FlopCounterMode(display=False) as counter:
        trainer.train_step()
    assert flops.step_flops(config, lengths) == pytest.approx(counter.get_total_flops(), rel=0.2)


@pytest.mark.parametrize("head", ["linear", "mlp", "mmoe"])
@pytest.mark.parametrize(("backbone", "concat"), [("hstu", False), ("hstu", True), ("sasrec", False), ("dcn", False)])
def test_other_models_equal_what_pytorch_counts(random_data, backbone, concat, head):
    """Products in the features are no part of a step's useful work, and sequences short beside the dims here: attention
    is a few hundredths. The backward is twice the forward but for the first layers' inputs."""
    config = Config(
        task="ranking",
        model=ModelConfig(
            backbone=backbone,
            concat_ua=concat,
            dim=64,
            qk_dim=24,
            value_dim=40,
            heads=2,
            blocks=3,
            max_items=64,
            dropout=0,
            interleave=True,
            contextual=("age",),
            relative_bias=False,
        ),
        ranking=RankingConfig(held_out=3, head=head, hidden=48, experts=3, rank=20),
        train=TrainConfig(batch=1),
    )
    trainer = Trainer(config, random_data, CPU)
    lengths = trainer.task.batch(trainer.users_of_step(0), CPU).tokens.sequences.lengths
    with FlopCounterMode(display=False) as counter:
        trainer.train_step()
    assert flops.step_flops(config, lengths) == pytest.approx(counter.get_total_flops(), rel=0.1)


def test_by_hand():
    config = Config(
        task="retrieval",
        model=ModelConfig(dim=4, qk_dim=2, value_dim=3, heads=1, blocks=1, max_items=8),
        retrieval=RetrievalConfig(negatives=6),
    )
    projections = 2 * 5 * 4 * (3 + 3 + 2 + 2) + 2 * 5 * 3 * 4
    attention = 2 * (2 + 3) * (9 + 4) / 2
    head = 2 * 5 * 7 * 4
    assert flops.step_flops(config, [3, 2]) == 3 * (projections + attention + head)
