"""Train a model: python -m gr_model.train --config ml-100k-retrieval --device npu [key=value ...]

On several processes: torchrun --nproc-per-node 2 -m gr_model.train ... ; over gloo, hccl or nccl, by the device.
Writes into --out: log.jsonl (one JSON object a line), checkpoints/step-N, metrics.json, report.html and PNGs.
Exit codes: 0 done, 1 wrong arguments, data or device, 2 the loss is not finite, 130 and 143 stopped by Ctrl-C and
SIGTERM after a checkpoint was written.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from gr_model import baselines, checkpoint, data, figures, files, flops, phases, presets, report, signals, world
from gr_model import config as configs
from gr_model.checkpoint import CheckpointError
from gr_model.config import ConfigError
from gr_model.data import DataError
from gr_model.device import DeviceError, describe, open_device
from gr_model.gradients import TrainingDiverged
from gr_model.jagged import OperatorsMissing
from gr_model.memory import peak_memory
from gr_model.progress import Progress
from gr_model.runlog import Log
from gr_model.steps import StepResult
from gr_model.tensorboard import Board, BoardMissing
from gr_model.trainer import Trainer
from gr_model.world import World, WorldError

EXPECTED = (
    BoardMissing, CheckpointError, ConfigError, DataError, DeviceError, OperatorsMissing, WorldError,
)  # fmt: skip


@dataclasses.dataclass
class Run:
    """A trainer, and where it says what it does. Only the first process writes."""

    trainer: Trainer
    log: Log
    show: Progress
    board: Board
    save: Callable[[], None]
    stop: signals.Stop
    peak: float  # FLOP/s of all processes

    def train(self) -> dict[str, float]:
        """Up to `train.steps` steps, `train.time_limit` seconds, or a signal; returns the last evaluation."""
        trainer, settings = self.trainer, self.trainer.config.train
        begin, metrics, evaluated_at, saved_at = time.monotonic(), {}, -1, -1
        works = iter(trainer.loader().works(trainer.step, max(settings.steps, trainer.step)))
        steps = trainer.train_steps(works)
        while trainer.step < settings.steps:
            if trainer.agree_to_stop():
                self.log("stopped", step=trainer.step, signal=self.stop.signal)
                self.show.say(f"stopped at step {trainer.step}")
                break
            if self._out_of_time(begin):
                self.log("time limit", step=trainer.step)
                self.show.say(f"time limit of {settings.time_limit:g} s reached at step {trainer.step}")
                break
            start = time.perf_counter()
            result = next(steps)
            self._tell(result, time.perf_counter() - start)
            if settings.eval_every and result.step % settings.eval_every == 0:
                metrics, evaluated_at = self._evaluate(), result.step
            if settings.checkpoint_every and result.step % settings.checkpoint_every == 0:
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
        late = torch.tensor([float(self.trainer.world.first and time.monotonic() - begin > limit)])
        return bool(self.trainer.world.sum(late.to(self.trainer.device)).item())

    def _tell(self, result: StepResult, seconds: float) -> None:
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
        every = self.trainer.config.train.log_every
        tell = result.step % every == 0 or result.step == 1
        if tell:
            fields["memory"] = peak_memory(self.trainer.device)
        self.log("step", step=result.step, **fields)
        self.board.step(result.step, fields)
        self.show.step(
            result.step, result.loss, seconds, result.tokens, tell=result.step % every == 0 or result.step == 1
        )

    def _evaluate(self) -> dict[str, float]:
        begin = time.perf_counter()
        metrics = self.trainer.evaluate()
        seconds = time.perf_counter() - begin
        self.log("evaluation", step=self.trainer.step, metrics=metrics, seconds=round(seconds, 3))
        self.board.metrics(self.trainer.step, metrics)
        self.show.say(f"step {self.trainer.step:5d}  " + "  ".join(f"{k} {v:.4f}" for k, v in metrics.items()))
        return metrics


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except EXPECTED as error:
        where = f"process {os.environ['RANK']}: " if world.launched() else ""
        print(f"error: {where}{error}", file=sys.stderr)
        return 1
    except TrainingDiverged as error:
        print(f"error: {error}", file=sys.stderr)
        print(f"the batch is in {_keep_batch(options.out, error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; no checkpoint of this step was written", file=sys.stderr)
        return 130
    finally:
        world.leave()


def _run(options: argparse.Namespace) -> int:
    folder = _where_to_go_on(options)
    if folder:
        config = configs.resumed(checkpoint.read_run(folder)["config"], options.override)
    else:
        config = configs.override(presets.get(options.config), options.override)
    device = open_device(world.local_device(options.device))
    here = world.join(device)
    show = Progress(here, config.train.steps, bar=options.progress)
    interactions = _load_data(config, options.data_dir, here, show.say)
    trainer = Trainer(config, interactions, device, here)
    if folder:
        trainer.load_state(checkpoint.load_run(folder, trainer.state()))
    phases.SYNCHRONISE["enabled"] = options.phases
    out: Path = options.out
    show.start_at(trainer.step)

    log = Log(out / "log.jsonl" if here.first else None, resumed_at=trainer.step if folder else None)
    board = Board(out / "tensorboard" if options.tensorboard and here.first else None, purge=trainer.step)
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
    )
    show.say(f"{options.config or options.resume} on {describe(device)}, {_processes(here)}: "
             f"{len(trainer.task.users)} users, {interactions.items} items")  # fmt: skip
    show.say(trainer.task.protocol())
    show.say(f"baseline ({name}): " + "  ".join(f"{key} {value:.4f}" for key, value in expected.items()))

    def save() -> None:
        checkpoint.save_run(out, trainer.state(), here)

    with signals.watched(lambda: setattr(trainer, "stop_asked", True)) as stop, show, board, closing(trainer):
        metrics = Run(trainer, log, show, board, save, stop, per_device * here.size).train()
        stopped = trainer.agree_to_stop()
    if here.first:
        files.write_text(out / "metrics.json", json.dumps({"step": trainer.step, **metrics}, indent=2) + "\n")
        page = out / "report.html"
        files.write_text(page, report.training_page(log.events))
        figures.write(log.events, out)
        show.say(f"wrote {page}")
        if stopped:
            show.say(f"stopped; to go on: python -m gr_model.train --resume {out} --out {out}")
    here.barrier()
    return (stop.exit_code or 143) if stopped else 0


def _where_to_go_on(options: argparse.Namespace) -> Path | None:
    """The checkpoint that --resume names, or with --go-on the newest of --out where there is one."""
    if options.resume:
        return checkpoint.find(options.resume)
    return checkpoint.newest(options.out) if options.go_on else None


def _load_data(config: configs.Config, folder: Path, here: World, say: Callable[[str], None]) -> data.Interactions:
    """The first process makes the shards of a data set that has none yet; the others wait and read them."""
    if not here.first:
        here.barrier()
    interactions = data.load(config.dataset, folder, config.data.bad_rows, say, config.synthetic)
    if here.first:
        here.barrier()
    return interactions


def _keep_batch(out: Path, error: TrainingDiverged) -> Path:
    path = out / "diverged" / f"step-{error.step:08d}-process-{os.environ.get('RANK', '0')}.pt"
    batch = _plain(error.batch)
    with files.replacing(path) as file:
        torch.save({"step": error.step, "users": error.users, "reason": str(error), "batch": batch}, file)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gr_model.train",
        description="Train an HSTU model.",
        epilog="Settings: " + ", ".join(configs.keys(next(iter(presets.PRESETS.values())))),
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", help=f"one of: {', '.join(presets.PRESETS)}")
    what.add_argument("--resume", type=Path, metavar="RUN",
                      help="continue a run, with its config: its --out folder, or one of its checkpoints")  # fmt: skip
    parser.add_argument("--go-on", action="store_true",
                        help="with --config: from the newest checkpoint of --out, where there is one")  # fmt: skip
    parser.add_argument("--device", default="cpu", help="npu, cuda or cpu (default); npu:1 for another one")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("GRSTACK_DATA", "data")),
                        help="folder that holds the data set's folder (default: $GRSTACK_DATA or ./data)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("runs/latest"), help="folder for log, checkpoints, report")
    parser.add_argument("--tensorboard", action="store_true", help="also write OUT/tensorboard")
    parser.add_argument("--phases", action="store_true", help="wait for the device after each phase, to time it")
    parser.add_argument("--progress", choices=("auto", "bar", "lines"), default="auto",
                        help="a bar on a terminal, lines elsewhere (auto)")  # fmt: skip
    parser.add_argument("override", nargs="*", metavar="key=value", help="settings, e.g. train.lr=5e-4")
    return parser


if __name__ == "__main__":
    sys.exit(main())
