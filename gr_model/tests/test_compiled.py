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


def trained(case: str, compile_: bool, steps: int = STEPS) -> tuple[list[float], dict[str, float], set, list[int]]:
    task, model, ranking = CASES[case]
    settings = {"dim": 8, "qk_dim": 8, "value_dim": 8, "max_items": 40, "interleave": task == "ranking", "blocks": 2}
    run = Trainer(
        Config(
            task=task,
            model=ModelConfig(**settings, **model, compile=compile_),
            ranking=RankingConfig(held_out=2, **ranking),
            train=TrainConfig(batch=7, lr=1e-2, ema=0.9),
        ),
        random_data(),
        CPU,
    )
    losses, shapes, compilations = [], set(), []
    make = run.task.batch

    def seen(*arguments):
        batch = make(*arguments)
        shapes.add(batch.tokens.sequences.lengths)
        return batch

    run.task.batch = seen
    for _ in range(steps):
        losses.append(run.train_step().loss)
        compilations.append(counters["stats"]["unique_graphs"])
    return losses, run.evaluate(), shapes, compilations


@pytest.mark.parametrize("case", ["hstu", *(pytest.param(name, marks=pytest.mark.slow) for name in [*CASES][1:])])
def test_compiled_equals_eager_and_compiles_no_batch_anew(case: str) -> None:
    expected, metrics, _, _ = trained(case, False)
    torch._dynamo.reset()
    counters.clear()
    losses, compiled_metrics, shapes, compilations = trained(case, True)
    assert losses == pytest.approx(expected, rel=1e-5)
    assert compiled_metrics == pytest.approx(metrics, rel=1e-3)
    # Of each part: to train, to evaluate, and for sizes of 1 and equal ones, which torch.compile takes for constants.
    parts = {"hstu": 3, "hstu, mmoe, candidates": 4, "sasrec": 1, "dcn, mlp": 2}[case]
    assert parts <= counters["stats"]["unique_graphs"] <= 4 * parts < len(shapes)
    assert compilations[STEPS // 2] == compilations[-1]
    assert not counters["graph_break"] and not counters["recompile_limit"]


@pytest.mark.parametrize("case", ["sasrec"])
def test_a_few_compiled_steps_equal_eager_ones(case: str) -> None:
    """Of the slow cases above the one with a single part, which takes seconds."""
    expected, metrics, _, _ = trained(case, False, FEW)
    torch._dynamo.reset()
    counters.clear()
    losses, compiled_metrics, _, _ = trained(case, True, FEW)
    assert counters["stats"]["unique_graphs"] > 0 and len(set(losses)) == FEW
    assert losses == pytest.approx(expected, rel=1e-5)
    assert compiled_metrics == pytest.approx(metrics, rel=1e-3)


def test_there_must_be_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="npu"):
        compiled.compile_parts(torch.nn.Linear(1, 1), torch.device("npu"))
    monkeypatch.setattr(compiled.shutil, "which", lambda _: None)
    with pytest.raises(ConfigError, match="g\\+\\+"):
        compiled.compile_parts(torch.nn.Linear(1, 1), CPU)
