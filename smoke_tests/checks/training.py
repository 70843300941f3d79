"""What the training checks share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gr_model import config, data
from gr_model.config import presets
from gr_model.runtime.device import open_device
from gr_model.training.trainer import Trainer
from smoke_tests.check import Context


@dataclass
class Record:
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def points(self, first: int = 1) -> list[list[float]]:
        return [[first + index, loss] for index, loss in enumerate(self.losses)]


def trainer(context: Context, preset: str, device: str, *settings: str) -> Trainer:
    chosen = config.override(presets.get(preset), ["train.deterministic=true", *settings])
    return Trainer(chosen, data.load(chosen.dataset, context.data_dir), open_device(device))


def steps(run: Trainer, count: int, say: Callable[[str], None] = print) -> Record:
    record = Record()
    for _ in range(count):
        begin = time.monotonic()
        result = run.train_step()
        record.losses.append(result.loss)
        record.seconds.append(time.monotonic() - begin)
        say(f"{run.device} step {result.step} loss {result.loss:.6f} {record.seconds[-1]:.3f} s")
    return record
