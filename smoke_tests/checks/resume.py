"""A run that is saved, loaded into a new trainer and continued, against one that was never interrupted."""

from __future__ import annotations

import os

import torch

from gr_model.run import checkpoint
from smoke_tests.check import CheckFailed, Context, Outcome
from smoke_tests.checks import training

SETTINGS = ("train.batch=32", "train.deterministic=false")  # dropout and negatives from the device's generator
STEPS = 4


def run(context: Context) -> Outcome:
    if context.kind == "cuda":  # sums by atomic additions have another order each time
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    whole = training.trainer(context, "ml-100k-retrieval", context.device, *SETTINGS)
    expected = training.steps(whole, 2 * STEPS).losses
    path = context.scratch / "resume.pt"
    first = training.trainer(context, "ml-100k-retrieval", context.device, *SETTINGS)
    losses = training.steps(first, STEPS).losses
    checkpoint.save(path, first.state())
    second = training.trainer(context, "ml-100k-retrieval", context.device, *SETTINGS)
    second.load_state(checkpoint.load(path))
    torch.manual_seed(12345)  # nothing may hang on a generator's hidden state
    losses += training.steps(second, STEPS).losses
    if losses != expected:
        pairs = zip(losses, expected, strict=True)
        raise CheckFailed("the continued run differs", [f"step {i}: {a!r}, {b!r}" for i, (a, b) in enumerate(pairs, 1)])
    if len(set(expected)) < len(expected):
        raise CheckFailed("losses repeat, so their equality proves nothing", [repr(expected)])
    return Outcome(f"{STEPS} steps, save, load, {STEPS} steps: all losses equal to the last bit")
