"""The optimizer, its learning rate over time, and an exponential moving average of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gr_model.config import TrainConfig
from gr_model.training.pieces import Pieces, local

MOMENTS = ("exp_avg", "exp_avg_sq")  # AdamW's names for them


def adamw(weights: Iterable[nn.Parameter], config: TrainConfig) -> torch.optim.AdamW:
    """Weight decay for matrices and tables, none for vectors: biases, norms, relative biases."""
    parameters = list(weights)
    kinds = {p.device.type for p in parameters}
    return torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": config.weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        foreach=True if kinds == {"npu"} else None,
        fused=True if kinds == {"cuda"} else None,  # one pass over what foreach goes through eight times
    )


def learning_rate(config: TrainConfig, step: int) -> float:
    """Of step `step`, from 0: a linear warm-up, then constant or half a cosine down to 0 at `steps`."""
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    if config.schedule == "constant":
        return config.lr
    done = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.lr * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def state(optimizer: torch.optim.Optimizer, names: Iterable[str], pieces: Pieces) -> dict[str, dict[str, torch.Tensor]]:
    """What the optimizer keeps of each weight, by name; zeros for one that has had no gradient yet."""
    kept = [dict(optimizer.state.get(parameter) or _fresh(parameter)) for parameter in pieces.parameters]
    for moment in MOMENTS:
        for values, moments in zip(kept, pieces.of_weights(values[moment] for values in kept)):
            values[moment] = moments
    return dict(zip(names, kept, strict=True))


def load_state(
    optimizer: torch.optim.Optimizer,
    names: Sequence[str],
    pieces: Pieces,
    state: dict[str, dict[str, torch.Tensor]],
) -> None:
    """The inverse of `state`; settings such as the learning rate stay those of this run."""
    if set(state) != set(names):
        raise ValueError(f"the optimizer's state is of other parameters: {', '.join(sorted(set(state) ^ set(names)))}")
    fused = bool(optimizer.defaults.get("fused"))  # keeps its steps beside the weights
    for name, weight, parameter in zip(names, pieces.weights, pieces.parameters, strict=True):
        kept = state[name]
        if kept["exp_avg"].shape != weight.shape:
            raise ValueError(f"size mismatch for the optimizer's state of {name}")
        optimizer.state[parameter] = {
            key: local(value).to("cpu" if key == "step" and not fused else parameter.device).clone()
            for key, value in kept.items()
        }


def _fresh(parameter: nn.Parameter) -> dict[str, torch.Tensor]:
    zeros = {moment: torch.zeros_like(parameter.detach()) for moment in MOMENTS}
    return {"step": torch.zeros(()), **zeros}


class MovingAverage:
    """average = decay * average + (1 - decay) * weight, after every step; early on a smaller decay, as in TensorFlow.

    Without the latter the average would remember the random initial weights for 1 / (1 - decay) steps.
    """

    def __init__(self, pieces: Pieces, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.pieces = pieces
        self.average = [parameter.detach().clone() for parameter in pieces.parameters]

    @torch.no_grad()
    def update(self) -> None:
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self.average, self.pieces.parameters, 1 - decay)
        self.steps += 1

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model holds the averages while this is open."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state(self, names: Iterable[str]) -> dict[str, Any]:
        weights = dict(zip(names, self.pieces.of_weights(self.average), strict=True))
        return {"steps": torch.tensor(self.steps), "weights": weights}

    @torch.no_grad()
    def load_state(self, names: Iterable[str], state: dict[str, Any]) -> None:
        kept = [state["weights"][name] for name in names]
        if [a.shape for a in kept] != [weight.shape for weight in self.pieces.weights]:
            raise ValueError("the averaged weights are of another model")
        self.steps = int(state["steps"])
        for average, stored in zip(self.average, kept):
            average.copy_(local(stored))

    @torch.no_grad()
    def _swap(self) -> None:
        self.pieces.refresh()
        for weight, parameter, average in zip(self.pieces.weights, self.pieces.parameters, self.average):
            if parameter is weight:
                weight.data, average.data = average.data, weight.data
            else:  # FSDP keeps its own reference to the memory
                kept = parameter.clone()
                parameter.copy_(average)
                average.copy_(kept)
