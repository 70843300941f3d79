"""Compiled parts against eager ones: the same losses, and one compilation for all shapes of batches."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters

from gr_model.config import Config, ConfigError, ModelConfig, RankingConfig, TrainConfig
from gr_model.tests.distributed_program import random_data
from gr_model.training import compiled
from gr_model.training.trainer import Trainer

CPU = torch.device("cpu")
STEPS, FEW = 20, 6
CASES = {
    "hstu": ("retrieval", {}, {}),
    "hstu, mmoe, candidates": ("ranking", {}, {"head": "mmoe", "candidates": 2}),
    "sasrec": ("retrieval", {"backbone": "sasrec"}, {}),
    "dcn, mlp": ("ranking", {"backbone": "dcn"}, {"head": "mlp"}),
}


class Run:
    """What a training of some steps saw: losses, shapes of batches, compilations so far."""

    def __init__(self, case: str, compile_: bool, steps: int = STEPS) -> None:
        self.trainer = _trainer(case, compile_)
        self.losses: list[float] = []
        self.shapes: set[tuple[int, ...]] = set()
        self.compilations: list[int] = []
        make = self.trainer.task.batch

        def seen(*arguments):
            batch = make(*arguments)
            self.shapes.add(batch.tokens.sequences.lengths)
            return batch

        self.trainer.task.batch = seen
        for _ in range(steps):
            self.losses.append(self.trainer.train_step().loss)
            self.compilations.append(counters["stats"]["unique_graphs"])


def _trainer(case: str, compile_: bool) -> Trainer:
    task, model, ranking = CASES[case]
    settings = {"dim": 8, "qk_dim": 8, "value_dim": 8, "max_items": 40, "interleave": task == "ranking", "blocks": 2}
    return Trainer(
        Config(
            task=task,
            model=ModelConfig(**settings, **model, compile=compile_),
            ranking=RankingConfig(held_out=2, **ranking),
            train=TrainConfig(batch=7, lr=1e-2, ema=0.9),
        ),
        random_data(),
        CPU,
    )


# The gate has the case with a single part, which takes seconds.
@pytest.mark.parametrize("case", [c if c == "sasrec" else pytest.param(c, marks=pytest.mark.slow) for c in CASES])
def test_compiled_equals_eager_and_compiles_no_batch_anew(case: str) -> None:
    eager = Run(case, False)
    metrics = eager.trainer.evaluate()
    torch._dynamo.reset()
    counters.clear()
    ours = Run(case, True)
    assert ours.losses == pytest.approx(eager.losses, rel=1e-5)
    assert ours.trainer.evaluate() == pytest.approx(metrics, rel=1e-3)
    # Of each part: to train, to evaluate, and for sizes of 1 and equal ones, which torch.compile takes for constants.
    parts = {"hstu": 3, "hstu, mmoe, candidates": 4, "sasrec": 1, "dcn, mlp": 2}[case]
    assert parts <= counters["stats"]["unique_graphs"] <= 4 * parts < len(ours.shapes)
    assert ours.compilations[STEPS // 2] == ours.compilations[-1]
    assert not counters["graph_break"] and not counters["recompile_limit"]


def test_a_few_compiled_steps_equal_eager_ones() -> None:
    eager = Run("hstu", False, FEW)
    torch._dynamo.reset()
    counters.clear()
    ours = Run("hstu", True, FEW)
    assert counters["stats"]["unique_graphs"] > 0 and len(set(ours.losses)) == FEW
    assert ours.losses == pytest.approx(eager.losses, rel=1e-5)


def test_there_must_be_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="npu"):
        compiled.compile_parts(torch.nn.Linear(1, 1), torch.device("npu"))
    monkeypatch.setattr(compiled.shutil, "which", lambda _: None)
    with pytest.raises(ConfigError, match="g\\+\\+"):
        compiled.compile_parts(torch.nn.Linear(1, 1), CPU)
