"""The training loop without any input or output: steps, evaluation, state."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from gr_model import config as configs
from gr_model import jagged, optimizer
from gr_model.checkpoint import CheckpointError
from gr_model.config import Config
from gr_model.data.interactions import Interactions
from gr_model.device import seed_everything
from gr_model.dropout import Dropout
from gr_model.ranking import Ranking
from gr_model.retrieval import Retrieval

TASKS = {"retrieval": Retrieval, "ranking": Ranking}


class TrainingDiverged(RuntimeError):
    pass


@dataclass(frozen=True)
class StepResult:
    step: int  # from 1
    loss: float
    tokens: int


class Trainer:
    """Order of the users, negatives and dropout of a step follow from (seed, step) alone.

    So a run that continues from a checkpoint repeats what an uninterrupted one would have done, and no state of a
    random generator has to be kept. With `train.deterministic` the random numbers are drawn on the host: every device
    then sees the same ones.
    """

    def __init__(self, config: Config, data: Interactions, device: torch.device) -> None:
        jagged.load_operators(device)
        self.config, self.device, self.step = config, device, 0
        seed_everything(config.train.seed)
        self.task = TASKS[config.task](config, data)
        self.model = self.task.model.to(device)
        for module in self.model.modules():
            if isinstance(module, Dropout):
                module.from_host = config.train.deterministic
        if config.train.deterministic and device.type == "cuda":
            torch.use_deterministic_algorithms(True)
        self.optimizer = optimizer.adamw(self.model, config.train)
        self.average = optimizer.MovingAverage(self.model, config.train.ema) if config.train.ema else None

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.task.users) / self.config.train.batch)

    def train_step(self) -> StepResult:
        """One optimizer step; a loss that is not finite raises TrainingDiverged and leaves the weights as they were."""
        seed_everything(self.config.train.seed * 1_000_003 + self.step)
        self.model.train()
        batch = self.task.batch(self.users_of_step(self.step), self.device)
        loss = self.task.loss(batch)
        value = loss.item()
        if not math.isfinite(value):
            raise TrainingDiverged(f"loss is {value} at step {self.step + 1}; lower train.lr or look at the data")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for group in self.optimizer.param_groups:
            group["lr"] = optimizer.learning_rate(self.config.train, self.step)
        self.optimizer.step()
        if self.average:
            self.average.update()
        self.step += 1
        return StepResult(self.step, value, batch.tokens.sequences.total)

    def users_of_step(self, step: int) -> list[int]:
        epoch, index = divmod(step, self.steps_per_epoch)
        shuffle = torch.Generator().manual_seed(self.config.train.seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.task.users), generator=shuffle).tolist()
        return order[index * self.config.train.batch : (index + 1) * self.config.train.batch]

    def evaluate(self) -> dict[str, float]:
        """Of the averaged weights, where there are any."""
        with self.average.in_place() if self.average else nullcontext():
            return self.task.evaluate(self.device)

    def state(self) -> dict[str, Any]:
        return {
            "config": configs.to_json(self.config),
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.state() if self.average else None,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """CheckpointError if the state is of another model: other data, or another version of gr_model."""
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.average and state["average"]:
                self.average.load_state(state["average"])
            self.step = state["step"]
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint does not fit this model and data: {error}") from error
