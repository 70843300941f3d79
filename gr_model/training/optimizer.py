"""The optimizer, its learning rate over time, and an exponential moving average of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gr_model.config import TrainConfig


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
        # Named, since PyTorch's own choice for FSDP's pieces is one parameter after another: ten times the host's time.
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


def state(optimizer: torch.optim.Optimizer, names: dict[str, nn.Parameter]) -> dict[str, dict[str, torch.Tensor]]:
    """What the optimizer keeps of each parameter, by name; zeros for one that has had no gradient yet."""
    return {name: dict(optimizer.state.get(parameter) or _fresh(parameter)) for name, parameter in names.items()}


def load_state(
    optimizer: torch.optim.Optimizer, names: dict[str, nn.Parameter], state: dict[str, dict[str, torch.Tensor]]
) -> None:
    """The inverse of `state`; settings such as the learning rate stay those of this run."""
    if set(state) != set(names):
        raise ValueError(f"the optimizer's state is of other parameters: {', '.join(sorted(set(state) ^ set(names)))}")
    fused = bool(optimizer.defaults.get("fused"))  # keeps its steps beside the weights
    for name, parameter in names.items():
        kept = state[name]
        if kept["exp_avg"].shape != parameter.shape:
            raise ValueError(f"size mismatch for the optimizer's state of {name}")
        optimizer.state[parameter] = {
            key: value.to("cpu" if key == "step" and not fused else parameter.device).clone()
            for key, value in kept.items()
        }


def _fresh(parameter: nn.Parameter) -> dict[str, torch.Tensor]:
    return {
        "step": torch.zeros(()),
        "exp_avg": torch.zeros_like(parameter.detach()),
        "exp_avg_sq": torch.zeros_like(parameter.detach()),
    }


class MovingAverage:
    """average = decay * average + (1 - decay) * weight, after every step; early on a smaller decay, as in TensorFlow.

    Without the latter the average would remember the random initial weights for 1 / (1 - decay) steps.
    """

    def __init__(self, weights: Iterable[nn.Parameter], decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.weights = list(weights)
        self.average = [weight.detach().clone() for weight in self.weights]

    @torch.no_grad()
    def update(self) -> None:
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self.average, self.weights, 1 - decay)
        self.steps += 1

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model holds the averages while this is open."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state(self, names: dict[str, nn.Parameter]) -> dict[str, Any]:
        return {"steps": torch.tensor(self.steps), "weights": dict(zip(names, self.average))}

    @torch.no_grad()
    def load_state(self, names: dict[str, nn.Parameter], state: dict[str, Any]) -> None:
        kept = [state["weights"][name] for name in names]
        if [a.shape for a in kept] != [a.shape for a in self.average]:
            raise ValueError("the averaged weights are of another model")
        self.steps = int(state["steps"])
        for average, stored in zip(self.average, kept):
            average.copy_(stored)

    @torch.no_grad()
    def _swap(self) -> None:
        for weight, average in zip(self.weights, self.average):
            if hasattr(weight, "to_local"):  # a piece of FSDP, which keeps its own reference to the storage
                piece, of_average = weight.to_local(), average.to_local()
                kept = piece.clone()
                piece.copy_(of_average)
                of_average.copy_(kept)
            else:
                weight.data, average.data = average.data, weight.data
