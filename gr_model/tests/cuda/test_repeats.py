"""train.deterministic: two runs of 20 steps have the same bits, on a GPU where there is one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PROGRAM = """
import hashlib, json, sys, torch
from gr_model import config
from gr_model.runtime.device import open_device
from gr_model.tests.distributed_program import random_data
from gr_model.training.trainer import Trainer
data, device, losses = random_data(), open_device(sys.argv[1]), []
for task in ("retrieval", "ranking"):
    model = config.ModelConfig(dim=32, heads=2, qk_dim=16, value_dim=16, max_items=30, interleave=task == "ranking")
    base = config.Config(
        task=task, model=model, train=config.TrainConfig(batch=7, deterministic=True),
        ranking=config.RankingConfig(held_out=2),
    )
    trainer = Trainer(config.override(base, sys.argv[2:]), data, device)
    losses += [trainer.train_step().loss for _ in range(20)]
    state = [p.detach().cpu().contiguous().view(torch.uint8) for p in trainer.model.parameters()]
    losses.append(hashlib.sha256(b"".join(x.numpy().tobytes() for x in state)).hexdigest())
print(json.dumps(losses))
"""


def train(settings: tuple[str, ...]) -> list[object]:
    path = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    environment.pop("TRITON_INTERPRET", None)
    program = [sys.executable, "-c", PROGRAM, DEVICE, *settings]
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("settings", [("model.attention=fused",), ("model.attention=blocked", "model.dropout=0.0")])
@pytest.mark.parametrize("precision", ["bf16", "fp32"] if DEVICE == "cuda" else ["fp32"])
def test_two_runs_have_the_same_bits(settings, precision):
    chosen = (*settings, f"train.precision={precision}")
    first = train(chosen)
    assert first == train(chosen)
    assert len(set(first)) == len(first) == 42  # nothing stands still
