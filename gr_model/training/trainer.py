"""The training loop without any input or output: steps, evaluation, state."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from gr_model import config as configs
from gr_model.common import draws, ticker
from gr_model.common.ticker import Say
from gr_model.config import Config, ConfigError
from gr_model.data.interactions import Interactions
from gr_model.data.loader import Loader, Shares, Work, shares_of
from gr_model.model import flops, jagged
from gr_model.model.dropout import Dropout
from gr_model.run.checkpoint import RunCheckpointError
from gr_model.runtime import marks
from gr_model.runtime.device import seed_everything
from gr_model.runtime.world import World
from gr_model.tasks.base import Batch, Task
from gr_model.tasks.registry import TASKS
from gr_model.training import compiled, gradients, optimizer, phases
from gr_model.training.parallel import Parallel
from gr_model.training.pieces import Pieces
from gr_model.training.pipeline import Pipeline
from gr_model.training.readings import Origin, Readings
from gr_model.training.steps import ForwardResult, PreparedBatch, StepResult


class Trainer:
    """Order of the users, negatives and dropout of a step follow from (seed, step) alone.

    So a run that continues from a checkpoint repeats what an uninterrupted one would have done, and no state of a
    random generator has to be kept. With `train.deterministic` the random numbers are drawn on the host, by user and
    place: every device, and every number of processes, then sees the same ones.
    """

    def __init__(
        self,
        config: Config,
        data: Interactions,
        device: torch.device,
        world: World | None = None,
        *,
        synchronise_phases: bool = False,
    ) -> None:
        """With `synchronise_phases` the device is waited for at the end of each phase of a step, to time it."""
        operators = jagged.load_operators(device)
        if config.model.attention == "fused" and device.type == "cpu" and operators != "gr_ops":
            raise ConfigError(
                "model.attention: fused needs gr_ops on a CPU, which is not installed\n"
                "  next: the same command with model.attention=plain; the images have gr_ops"
            )
        self.world = world or World(device=device)
        if config.train.batch < self.world.size:
            raise ConfigError(
                f"train.batch: {config.train.batch} users cannot be spread over {self.world.size} processes"
            )
        self.config, self.device, self.step = config, device, 0
        self.synchronise_phases = synchronise_phases
        self.stop_asked = False
        seed_everything(config.train.seed)
        self.task: Task = TASKS[config.task](config, data, self.world)
        for stream, module in enumerate(m for m in self.task.model.modules() if isinstance(m, Dropout)):
            module.from_host, module.stream = config.train.deterministic, stream
        if config.model.compile:
            compiled.compile_parts(self.task.model, device)
        if config.train.deterministic and device.type == "cuda":
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read with the first product
            torch.use_deterministic_algorithms(True)
        if device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = config.train.tf32  # the kernels of gr_ops ask for it too
        self.parallel = Parallel(self.task.model, config, self.world)
        self.model: nn.Module = self.task.model
        self.dense = self.parallel.dense_parameters()
        self.pieces = Pieces(self.dense.values())
        self.optimizer = optimizer.adamw(self.pieces.parameters, config.train)
        self.average = optimizer.MovingAverage(self.pieces, config.train.ema) if config.train.ema else None
        self._shares: Shares | None = None
        self._keyed = ExitStack()  # the random numbers by row, from a step's forward to its end
        self._pipeline: Pipeline | None = None
        # Elsewhere a look at the norm waits for the backward, and the host could not prepare the next step meanwhile.
        self.looks_before_update = device.type == "cpu"
        # A GPU has the backward by the time that the loss is waited for, and goes on with it.
        self.answers_late = device.type == "cuda"
        self._readings = Readings()

    @property
    def steps_per_epoch(self) -> int:
        return self.shares.order.steps_per_epoch

    @property
    def shares(self) -> Shares:
        if self._shares is None or self._shares.order.users != len(self.task.users):
            train, longest = self.config.train, self.config.model.max_items
            self._shares = shares_of(
                self.task.users, train.batch, train.seed, longest, self.world.rank, self.world.size
            )
        return self._shares

    def loader(self) -> Loader:
        """Reads ahead what `train_step` takes."""
        settings = self.config.data
        return Loader(
            self.shares,
            self.task.users,
            workers=settings.workers,
            prefetch=settings.prefetch,
            context=settings.start_method,
        )

    def users_of_step(self, step: int) -> list[int]:
        """Of all processes."""
        return self.shares.order.users_of_step(step)

    def train_steps(self, works: Iterator[Work]) -> Iterator[StepResult]:
        """A step of each of `works`, in order; with train.pipeline the ids of later ones travel meanwhile."""
        if self.config.train.pipeline == "sparse_dist":
            self._pipeline = self._pipeline or Pipeline(self)
            yield from self._pipeline.train(works)
            return
        while True:
            begin = time.perf_counter()
            work = next(works, None)
            if work is None:
                return
            waited = time.perf_counter() - begin
            result = self.train_step(work)
            yield replace(result, seconds={"data": waited, **result.seconds})

    def train_step(self, work: Work | None = None) -> StepResult:
        """One optimizer step over all processes, of `work` or of what it reads itself.

        A loss or gradient that is not finite raises TrainingDiverged, with the batch that it came from, on every
        process and leaves the weights as they were; rows of sharded tables have had their update by the time that a
        gradient's norm is known. On other devices than the CPU loss and norm are looked at where the host waits
        anyway: in every `train.log_every`-th step, in evaluation or `state`. The weights have had the update then, but
        no such state is handed out.
        """
        if work is None:
            share = self.shares.of_step(self.step)
            work = Work(self.step, share, [self.task.users[user] for user in share.users])
        with marks.step(self.step + 1, self.device):
            return self._train_step(work)

    def _train_step(self, work: Work) -> StepResult:
        clock = self.clock()
        self.model.train()
        prepared = self.prepare(work)
        self.set_table_rate()
        clock.lap("batch")
        loss, forward = self.forward(prepared)
        clock.lap("forward")
        self.pieces.zero_grad()
        loss.backward()
        clock.lap("backward")
        return self.finish(forward, clock)

    def clock(self) -> phases.Clock:
        return phases.Clock(self.device, self.synchronise_phases)

    def set_table_rate(self) -> None:
        """Of the coming step. Before its lookup, which hands the rate on to its backward."""
        train = self.config.train
        self.parallel.set_table_rate(self.config.embedding.lr * optimizer.learning_rate(train, self.step) / train.lr)

    def prepare(self, work: Work) -> PreparedBatch:
        """Makes the batch. Random numbers follow from (seed, step), and in the forward go on after those drawn here."""
        train, share = self.config.train, work.share
        # Processes draw different numbers, but for those that go by user.
        seed_everything((train.seed * 1_000_003 + work.step) * 4099 + (0 if train.deterministic else self.world.rank))
        return PreparedBatch(work, self.task.batch(share.users, self.device, work.histories, share.counts, work.step))

    def forward(self, prepared: PreparedBatch) -> tuple[torch.Tensor, ForwardResult]:
        """This process's part of the loss, for the backward; `finish` must come after it."""
        train, share, batch = self.config.train, prepared.work.share, prepared.batch
        part, tokens, flop = self._part(batch, share.counts)
        self._keyed.close()
        self._keyed.enter_context(draws.for_rows(self._keys(share.users, batch)))  # the backward may draw them again
        with torch.autocast(self.device.type, torch.bfloat16, enabled=train.precision == "bf16"):
            loss = self.task.loss(batch, self.parallel.module if self.world.size > 1 else None)
        mean = self._readings.add("loss", self._mean(loss, part), Origin(self.step + 1, share.users, batch))
        if self._reads_this_step():  # with the norm of the step before, which would have made this loss what it is
            self._readings.ask() if self.answers_late else self._readings.read()
        result = ForwardResult(prepared, mean, tokens, flop, optimizer.learning_rate(train, self.step))
        # DDP and torchrec take the mean over processes: times their number it is the sum of the parts.
        return loss * (part * self.world.size), result

    def finish(self, forward: ForwardResult, clock: phases.Clock) -> StepResult:
        """What comes after the backward."""
        self._keyed.close()
        prepared = forward.prepared
        self.pieces.refresh()
        total = gradients.norm(self.pieces, self.config.train.clip, self.world)
        origin = Origin(self.step + 1, prepared.work.share.users, prepared.batch)
        norm = self._readings.add("the norm of the gradient", total, origin)
        if self.looks_before_update:
            self._readings.read()
        for group in self.optimizer.param_groups:
            group["lr"] = forward.rate
        self.optimizer.step()
        if self.average:
            self.average.update()
        self._readings.take_answer()
        clock.lap("optimizer")
        self.step += 1
        of_gradient = norm.value if self.looks_before_update else float("nan")
        return StepResult(
            self.step, forward.loss, forward.tokens, forward.rate, forward.flops, of_gradient, clock.seconds
        )

    def read(self) -> None:
        """Waits for the losses and norms that nobody looked at yet; TrainingDiverged if one is not finite."""
        self._readings.read()

    def evaluate(self, say: Say = ticker.nothing) -> dict[str, float]:
        """Of the averaged weights, where there are any; the same on every process."""
        self.read()
        with (
            self.average.in_place() if self.average else nullcontext(),
            self._pipeline.paused() if self._pipeline else nullcontext(),
        ):
            metrics = self.task.evaluate(self.device, say)
        self.parallel.drop_gathered()
        return metrics

    def close(self) -> None:
        """Stops the threads of cached tables; the trainer cannot be used any more."""
        self.parallel.close()

    def agree_to_stop(self) -> bool:
        """Whether any process was asked to stop; every process gets the same answer."""
        return self.world.sum_of_numbers(float(self.stop_asked))[0] > 0

    def _part(self, batch: Batch, counts: bool) -> tuple[float, int, float]:
        """This process's share of the numbers that the loss is the mean of; tokens and FLOP of all processes."""
        terms = batch.terms if counts else 0
        lengths = batch.tokens.sequences.lengths
        work = flops.step_flops(self.config, lengths)
        if self.world.size == 1:
            return 1.0, sum(lengths), work
        all_terms, tokens, mega = self.world.sum_of_numbers(terms, sum(lengths), int(work / 1e6))
        return terms / all_terms, int(tokens), mega * 1e6

    def _mean(self, loss: torch.Tensor, part: float) -> torch.Tensor:
        # Not finite times 0 is not finite either: the processes agree about a loss that no mean counts.
        return self.world.sum((loss.detach() * part).float().clone())

    def _reads_this_step(self) -> bool:
        """On a device with the records of several steps, because to read is to wait for all that was queued."""
        return self.device.type == "cpu" or (self.step + 1) % self.config.train.log_every == 0

    def _keys(self, users: list[int], batch: Batch) -> np.ndarray | None:
        if not self.config.train.deterministic:
            return None
        tokens = batch.tokens
        return draws.rows(self.config.train.seed, self.step, [users[b] for b in tokens.order], tokens.sequences.lengths)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps; TrainingDiverged where the last update was not finite."""
        self.read()
        return {
            "config": configs.to_json(self.config),
            "step": self.step,
            "model": self.parallel.model_state(),
            "optimizer": optimizer.state(self.optimizer, self.dense, self.pieces),
            "tables": self.parallel.table_state(),
            "average": self.average.state(self.dense) if self.average else {},
            **self.parallel.rows(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """RunCheckpointError if the state is of another model: other data, or another version of gr_model."""
        try:
            self.parallel.load_model_state(state["model"])
            optimizer.load_state(self.optimizer, list(self.dense), self.pieces, state["optimizer"])
            self.parallel.load_table_state(state["tables"], state["step"])
            if self.average and state["average"]:
                self.average.load_state(self.dense, state["average"])
            self.step = state["step"]
        except (KeyError, RuntimeError, ValueError) as error:
            raise RunCheckpointError(f"the checkpoint does not fit this model and data: {error}") from error
