"""A training from its first step to its report: the trainer, the processes, what is written into the run's folder."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import torch

from gr_model import config as configs
from gr_model import data
from gr_model.common import errors, files
from gr_model.embedding import dynamic_tables
from gr_model.model import flops
from gr_model.report import counts, figures
from gr_model.report import pages as report
from gr_model.report.progress import Progress
from gr_model.report.prometheus import Exporter
from gr_model.report.tensorboard import Board
from gr_model.run import checkpoint, data_note, leftovers
from gr_model.run import folder as run_folder
from gr_model.run.folder import Place
from gr_model.run.log import Log
from gr_model.run.plan import Plan
from gr_model.runtime import signals, world
from gr_model.runtime.device import describe, open_device
from gr_model.runtime.launched import launched
from gr_model.runtime.memory import peak_memory
from gr_model.runtime.world import World
from gr_model.tasks import baselines
from gr_model.training.gradients import TrainingDiverged
from gr_model.training.steps import StepResult
from gr_model.training.trainer import Trainer


@dataclasses.dataclass
class Run:
    """A trainer, and where it says what it does. Only the first process writes."""

    trainer: Trainer
    log: Log
    show: Progress
    board: Board
    exporter: Exporter
    save: Callable[[], None]
    stop: signals.Stop
    peak: float  # FLOP/s of all processes
    saved_at: int = -1  # the step of the checkpoint of this run that there is
    untold: list[tuple[StepResult, float]] = dataclasses.field(default_factory=list)  # with seconds; loss not read yet

    def train(self) -> dict[str, float]:
        """Up to `train.steps` steps, `train.time_limit` seconds, or a signal; returns the last evaluation."""
        try:
            return self._train()
        except TrainingDiverged as error:
            self._tell_untold(last=error.step)
            raise

    def _train(self) -> dict[str, float]:
        trainer, settings = self.trainer, self.trainer.config.train
        begin, metrics, evaluated_at, saved_at = time.monotonic(), {}, -1, self.saved_at
        works = iter(trainer.loader().works(trainer.step, max(settings.steps, trainer.step)))
        steps = trainer.train_steps(works)
        while trainer.step < settings.steps:
            if trainer.agree_to_stop():
                self._catch_up()
                self.log("stopped", step=trainer.step, signal=self.stop.signal)
                self.show.say(f"stopped at step {trainer.step}")
                break
            if self._out_of_time(begin):
                self._catch_up()
                self.log("time limit", step=trainer.step)
                self.show.say(f"time limit of {settings.time_limit:g} s reached at step {trainer.step}")
                break
            start = time.perf_counter()
            result = next(steps)
            self._tell(result, time.perf_counter() - start)
            if settings.eval_every and result.step % settings.eval_every == 0:
                metrics, evaluated_at = self._evaluate(), result.step
            if settings.checkpoint_every and result.step % settings.checkpoint_every == 0:
                self._catch_up()
                self.save()
                saved_at = result.step
        if not trainer.agree_to_stop() and evaluated_at != trainer.step:
            metrics = self._evaluate()
        if saved_at != trainer.step:
            self.save()
        return metrics

    def _out_of_time(self, begin: float) -> bool:
        """The first process's clock decides for all."""
        limit = self.trainer.config.train.time_limit
        if not limit:
            return False
        late = self.trainer.world.first and time.monotonic() - begin > limit
        return self.trainer.world.sum_of_numbers(float(late))[0] > 0

    def _tell(self, result: StepResult, seconds: float) -> None:
        """A step is told when its loss is known: on a device those since the last `train.log_every` together."""
        self.untold.append((result, seconds))
        if self._shown(result) or result.loss_known:
            self._tell_untold()

    def _shown(self, result: StepResult) -> bool:
        return result.step % self.trainer.config.train.log_every == 0 or result.step == 1

    def _catch_up(self) -> None:
        """The log has every step before what comes next in it, and before a checkpoint."""
        self.trainer.read()
        self._tell_untold()

    def _tell_untold(self, last: int | None = None) -> None:
        """With `last`, a run that diverged there: finite losses up to it. The host takes its time where it waits for
        the device, so steps that are told together share it."""
        untold, self.untold = self.untold, []
        if last is not None:
            untold = [told for told in untold if told[0].step <= last and math.isfinite(told[0].loss)]
        for result, _ in untold:
            self._tell_one(result, sum(seconds for _, seconds in untold) / len(untold))

    def _tell_one(self, result: StepResult, seconds: float) -> None:
        fields: dict[str, Any] = {
            "loss": result.loss,
            "lr": result.rate,
            "seconds": round(seconds, 4),
            "tokens": result.tokens,
            "mfu": round(result.flops / seconds / self.peak, 6),
            "phases": {name: round(spent, 5) for name, spent in result.seconds.items()},
        }
        if result.gradient_norm == result.gradient_norm:
            fields["gradient_norm"] = result.gradient_norm
        tell = self._shown(result)
        if tell:
            fields["memory"] = peak_memory(self.trainer.device)
        self.log("step", step=result.step, **fields)
        self.board.step(result.step, fields)
        self.exporter.step(result.step, fields)
        self.show.step(result.step, result.loss, seconds, result.tokens, tell=tell)

    def _evaluate(self) -> dict[str, float]:
        self._catch_up()
        begin = time.perf_counter()
        metrics = self.trainer.evaluate(self.show.say)
        seconds = time.perf_counter() - begin
        self.log("evaluation", step=self.trainer.step, metrics=metrics, seconds=round(seconds, 3))
        self.board.metrics(self.trainer.step, metrics)
        self.exporter.metrics(self.trainer.step, metrics)
        self.show.say(f"step {self.trainer.step:5d}  " + "  ".join(f"{k} {v:.4f}" for k, v in metrics.items()))
        return metrics


def train(options: argparse.Namespace, decide: Callable[[], Plan]) -> int:
    """Returns the exit code. `decide` is asked on the first process; the others are told."""
    try:
        return _train(options, decide)
    except KeyboardInterrupt:
        print("interrupted; no checkpoint of this step was written", file=sys.stderr)
        return 130
    finally:
        world.leave()


def _train(options: argparse.Namespace, decide: Callable[[], Plan]) -> int:
    device = open_device(world.local_device(options.device))
    here = world.join(device)
    plan = Plan.from_json(first_decides(here, lambda: decide().to_json()))
    config, place = plan.config, plan.place
    show = Progress(here, config.train.steps, bar=options.progress)
    interactions = _load_data(config, options.data_dir, here, show.say)
    first_decides(here, lambda: data_note.check(place.checkpoint, interactions))
    trainer = Trainer(config, interactions, device, here, synchronise_phases=options.phases)
    if place.checkpoint:
        trainer.load_state(checkpoint.load_run(place.checkpoint, trainer.state()))
    show.start_at(trainer.step)

    with ExitStack() as claims:

        def claim() -> str:
            mine, said = claims.enter_context(run_folder.claimed(place, plan.name, configs.to_json(config)))
            if warning := run_folder.warn_of_loss(mine):
                print(warning, file=sys.stderr, flush=True)
            for line in said:
                show.say(line)
            data_note.keep(mine.out, interactions)
            return mine.to_json()

        place = Place.from_json(first_decides(here, claim))
        return _write(options, plan, place, trainer, show)


def _write(options: argparse.Namespace, plan: Plan, place: Place, trainer: Trainer, show: Progress) -> int:
    """The training itself, in the folder that is now the run's own."""
    config, here, device, out = trainer.config, trainer.world, trainer.device, place.out
    in_own_folder = place.checkpoint is not None and not place.new
    log = Log(
        out / leftovers.LOG if here.first else None, place.run, resumed_at=trainer.step if in_own_folder else None
    )
    board = Board(
        out / leftovers.BOARD if options.tensorboard and here.first else None,
        purge=trainer.step,
        suffix=leftovers.board_suffix(place.run),
    )
    watch = dynamic_tables.watcher(trainer.model, config.embedding)
    exporter = Exporter(options.prometheus if here.first else None, place.run, watch)
    wide = torch.float32 if config.train.precision == "fp32" else torch.bfloat16
    per_device, from_where = flops.peak(device, wide)
    name, expected = baselines.baseline(trainer.task) if here.first else ("", {})
    log(
        "start",
        config=configs.to_json(config),
        device=describe(device),
        processes=here.size,
        step=trainer.step,
        torch=torch.__version__,
        protocol=trainer.task.protocol(),
        baseline={"name": name, "metrics": expected},
        peak={"flops": per_device * here.size, "source": from_where},
        parameters=sum(p.numel() for p in trainer.model.parameters()),
        **({"continues": place.continues} if place.continues else {}),
    )
    show.say(
        f"{options.config or options.resume} on {describe(device)}, {_processes(here)}: "
        f"{len(trainer.task.users)} users, {trainer.task.data.items} items"
    )
    show.say(f"run {place.run} in {out}" + (f", after {place.checkpoint}" if place.checkpoint else ""))
    show.say(trainer.task.protocol())
    show.say(f"baseline ({name}): " + "  ".join(f"{key} {value:.4f}" for key, value in expected.items()))

    def save() -> None:
        checkpoint.save_run(out, trainer.state(), here, run=place.run)

    try:
        with (
            signals.watched(lambda: setattr(trainer, "stop_asked", True)) as stop,
            show,
            board,
            exporter,
            closing(trainer),
        ):
            saved_at = trainer.step if in_own_folder else -1
            metrics = Run(trainer, log, show, board, exporter, save, stop, per_device * here.size, saved_at).train()
            stopped = trainer.agree_to_stop()
    except TrainingDiverged as error:
        print(f"error: {error}", file=sys.stderr)
        print(f"the batch is in {_keep_batch(out, place.run, error)}", file=sys.stderr)
        return 2
    if here.first:
        result = {"run": place.run, "step": trainer.step, **metrics}
        files.write_text(out / leftovers.METRICS, json.dumps(result, indent=2) + "\n")
        if steps := counts.of_this_process():
            log("counts", step=trainer.step, **counts.summary(steps))
        page = out / leftovers.REPORT
        files.write_text(page, report.training_page(log.events))
        figures.write(log.events, out)
        show.say(f"wrote {page}")
        if stopped:
            show.say(f"stopped; to go on: {_resume_command(options, out, here)}")
    here.barrier()
    return (stop.exit_code or 143) if stopped else 0


def first_decides(here: World, decide: Callable[[], str]) -> str:
    """What the first process decides, on every one. Its error ends all of them, and it alone tells it."""
    answer, failure = {}, None
    if here.first:
        try:
            answer = {"decided": decide()}
        except Exception as error:
            answer, failure = {"error": errors.told(error) or repr(error)}, error
    answer = json.loads(here.broadcast(json.dumps(answer)))
    if failure is not None:
        raise failure
    if "error" in answer:
        raise errors.SaidElsewhere(answer["error"])
    return str(answer["decided"])


def _resume_command(options: argparse.Namespace, out: Path, here: World) -> str:
    local = int(os.environ.get("LOCAL_WORLD_SIZE", here.size))
    hosts = f"--nnodes {here.size // local} ... " if here.size > local else ""  # how they find each other is theirs
    start = f"torchrun {hosts}--nproc-per-node {local} -m" if launched() else "python -m"
    words = ["--resume", out, "--device", options.device, "--data-dir", options.data_dir]
    words += ["--tensorboard"] if options.tensorboard else []
    words += ["--phases"] if options.phases else []
    words += ["--prometheus", "{}:{}".format(*options.prometheus)] if options.prometheus else []
    return f"{start} gr_model.train {' '.join(shlex.quote(str(word)) for word in words)}"


def _load_data(config: configs.Config, folder: Path, here: World, say: Callable[[str], None]) -> data.Interactions:
    """The first process makes the shards of a data set that has none yet; the others wait and read them."""
    if not here.first:
        here.barrier()
    interactions = data.load(config.dataset, folder, config.data.bad_rows, say, config.synthetic, config.data)
    if here.first:
        here.barrier()
    return interactions


def _keep_batch(out: Path, run: str, error: TrainingDiverged) -> Path:
    path = out / leftovers.DIVERGED / leftovers.batch_name(run, error.step, os.environ.get("RANK", "0"))
    kept = {"run": run, "step": error.step, "users": error.users, "reason": str(error), "batch": _plain(error.batch)}
    with files.replacing(path) as file:
        torch.save(kept, file)
    return path


def _plain(value: Any) -> Any:
    """Dataclasses as dicts, tensors on the CPU: what `torch.load(weights_only=True)` reads."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _processes(here: World) -> str:
    return f"{here.size} processes over {world.BACKENDS[here.device.type]}" if here.size > 1 else "1 process"
