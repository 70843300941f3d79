"""Train a model: python -m gr_model.train --config ml-100k-retrieval --device npu [key=value ...]

Writes into --out: log.jsonl (one JSON object a line), checkpoint.pt, metrics.json, report.html.
Exit codes: 0 done, 1 wrong arguments, data or device, 2 the loss is not finite.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gr_model import baselines, checkpoint, data, files, report
from gr_model import config as configs
from gr_model.checkpoint import CheckpointError
from gr_model.config import ConfigError
from gr_model.data import DataError
from gr_model.device import DeviceError, describe, open_device
from gr_model.jagged import OperatorsMissing
from gr_model.trainer import Trainer, TrainingDiverged

Event = dict[str, Any]


class Log:
    """log.jsonl; a record is written before the next step begins.

    A run that continues from a checkpoint takes its steps after `resumed_at` again, so what a former attempt logged
    about them goes: each step stands once.
    """

    def __init__(self, path: Path, resumed_at: int | None = None) -> None:
        former = report.read_log(path) if resumed_at is not None and path.exists() else []
        self.events: list[Event] = [event for event in former if event["step"] <= resumed_at]
        files.write_text(path, "".join(json.dumps(event) + "\n" for event in self.events))
        self._file = path.open("a", encoding="utf-8")

    def __call__(self, event: str, **fields: Any) -> Event:
        record = {"event": event, **fields}
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        self.events.append(record)
        return record


def train(trainer: Trainer, log: Log, save: Callable[[], None], say: Callable[[str], None]) -> dict[str, float]:
    """Runs up to `train.steps` steps or `train.time_limit` seconds; returns the last evaluation."""
    settings = trainer.config.train
    begin, metrics, evaluated_at = time.monotonic(), {}, -1
    while trainer.step < settings.steps:
        if settings.time_limit and time.monotonic() - begin > settings.time_limit:
            log("time limit", step=trainer.step)
            say(f"time limit of {settings.time_limit:g} s reached at step {trainer.step}")
            break
        start = time.monotonic()
        result = trainer.train_step()
        seconds = time.monotonic() - start
        log("step", step=result.step, loss=result.loss, seconds=round(seconds, 4), tokens=result.tokens)
        if result.step % settings.log_every == 0 or result.step == 1:
            left = (settings.steps - result.step) * seconds
            say(f"step {result.step:5d}/{settings.steps}  loss {result.loss:.4f}  {seconds:.3f} s  "
                f"{result.tokens / seconds:,.0f} tokens/s  about {left:.0f} s left")  # fmt: skip
        if settings.eval_every and result.step % settings.eval_every == 0:
            metrics, evaluated_at = _evaluate(trainer, log, say), result.step
        if settings.checkpoint_every and result.step % settings.checkpoint_every == 0:
            save()
    if evaluated_at != trainer.step:
        metrics = _evaluate(trainer, log, say)
    save()
    return metrics


def _evaluate(trainer: Trainer, log: Log, say: Callable[[str], None]) -> dict[str, float]:
    metrics = trainer.evaluate()
    log("evaluation", step=trainer.step, metrics=metrics)
    say(f"step {trainer.step:5d}  " + "  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    return metrics


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except (ConfigError, DataError, DeviceError, CheckpointError, OperatorsMissing) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except TrainingDiverged as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    state = checkpoint.load(options.resume) if options.resume else None
    if state:
        config = configs.resumed(state.get("config", {}), options.override)
    else:
        config = configs.override(configs.preset(options.config), options.override)
    interactions = data.load(config.dataset, options.data_dir)
    device = open_device(options.device)
    trainer = Trainer(config, interactions, device)
    if state:
        trainer.load_state(state)

    say = _line_printer()
    log = Log(options.out / "log.jsonl", resumed_at=trainer.step if state else None)
    name, expected = baselines.baseline(trainer.task)
    log(
        "start",
        config=configs.to_json(config),
        device=describe(device),
        step=trainer.step,
        torch=torch.__version__,
        protocol=trainer.task.protocol(),
        baseline={"name": name, "metrics": expected},
    )
    say(f"{options.config or options.resume} on {describe(device)}: {len(trainer.task.users)} users, "
        f"{interactions.items} items, {sum(p.numel() for p in trainer.model.parameters()):,} parameters")  # fmt: skip
    say(trainer.task.protocol())
    say(f"baseline ({name}): " + "  ".join(f"{key} {value:.4f}" for key, value in expected.items()))

    metrics = train(trainer, log, lambda: checkpoint.save(options.out / "checkpoint.pt", trainer.state()), say)
    files.write_text(options.out / "metrics.json", json.dumps({"step": trainer.step, **metrics}, indent=2) + "\n")
    page = options.out / "report.html"
    files.write_text(page, report.training_page(log.events))
    say(f"wrote {page}")
    return 0


def _line_printer() -> Callable[[str], None]:
    begin = time.monotonic()
    return lambda text: print(f"[{time.monotonic() - begin:7.1f} s] {text}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gr_model.train",
        description="Train an HSTU model.",
        epilog="Settings: " + ", ".join(configs.keys(next(iter(configs.PRESETS.values())))),
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", help=f"one of: {', '.join(configs.PRESETS)}")
    what.add_argument("--resume", type=Path, metavar="CHECKPOINT", help="continue a run, with its config")
    parser.add_argument("--device", default="cpu", help="npu, cuda or cpu (default); npu:1 for another one")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("GRSTACK_DATA", "data")),
                        help="folder that holds the data set's folder (default: $GRSTACK_DATA or ./data)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("runs/latest"), help="folder for log, checkpoint, report")
    parser.add_argument("override", nargs="*", metavar="key=value", help="settings, e.g. train.lr=5e-4")
    return parser


if __name__ == "__main__":
    sys.exit(main())
