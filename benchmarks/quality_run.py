"""One training on ML-100K, of benchmarks.quality_search (validation targets) or benchmarks.quality (the test)."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.pool
import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # the workers are enough

import torch  # noqa: E402

from gr_model import config as configs  # noqa: E402
from gr_model import data  # noqa: E402
from gr_model.common.files import write_text  # noqa: E402
from gr_model.config import presets  # noqa: E402
from gr_model.data.interactions import Interactions  # noqa: E402
from gr_model.model import jagged  # noqa: E402
from gr_model.runtime.device import describe, keep_freed_memory, open_device  # noqa: E402
from gr_model.tasks import metrics  # noqa: E402
from gr_model.training.trainer import Trainer  # noqa: E402

VALIDATION = 5  # targets of each user before the test target
Run = dict[str, Any]
Pool = multiprocessing.pool.Pool


@dataclass(frozen=True)
class Job:
    """`at`: the steps after which the model is evaluated; the last one ends the run."""

    stage: str  # whose targets: "test", or a stage of the search
    model: str
    settings: tuple[str, ...]
    seed: int
    at: tuple[int, ...]
    device: str
    folder: str
    deadline: float = float("inf")  # time.time() after which the run does not begin

    @property
    def key(self) -> tuple[object, ...]:
        return self.stage, self.model, self.settings, self.seed


def key_of(run: Run) -> tuple[object, ...]:
    return run["stage"], run["model"], tuple(run["settings"]), run["seed"]


@cache
def ratings(folder: str) -> Interactions:
    return data.load("ml-100k", Path(folder))


def attention(device: torch.device) -> str:
    """The fastest there is: without gr_ops a GPU has blocks that PyTorch compiles (model/attention/blocked.py)."""
    return "fused" if device.type == "cuda" or jagged.load_operators(device) == "gr_ops" else "plain"


def train(job: Job) -> Run | None:
    """The metrics of the averaged weights after each of `job.at`; of the test also the ranks of all users' targets."""
    if time.time() > job.deadline:
        return None
    torch.set_num_threads(1)
    keep_freed_memory()
    device = open_device(job.device)
    validation = 0 if job.stage == "test" else VALIDATION
    more = [f"train.seed={job.seed}", f"train.steps={job.at[-1]}", f"retrieval.validation={validation}"]
    more.append(f"model.attention={attention(device)}")
    config = configs.override(presets.get("ml-100k-retrieval"), [*job.settings, *more])
    trainer = Trainer(config, ratings(job.folder), device)
    begin, begin_processor, curve = time.monotonic(), time.process_time(), []
    while trainer.step < job.at[-1]:
        loss = trainer.train_step().loss
        if trainer.step in job.at:
            trainer.read()
            with trainer.average.in_place() if trainer.average else nullcontext():
                ranks = trainer.task.ranks(device).ravel()
            found = {name: round(value, 5) for name, value in metrics.of_ranks(ranks).items()}
            curve.append({"step": trainer.step, "loss": round(float(loss), 5), **found})
    return {
        "stage": job.stage,
        "model": job.model,
        "settings": list(job.settings),
        "seed": job.seed,
        "device": describe(device),
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "seconds": round(time.monotonic() - begin, 1),
        "processor seconds": round(time.process_time() - begin_processor, 1),
        "curve": curve,
        **({} if validation else {"ranks": ranks.tolist()}),
    }


def pool(workers: int) -> Pool:
    return multiprocessing.get_context("spawn").Pool(workers)


def finish(workers: Pool, jobs: Sequence[Job], path: Path, found: Run) -> Iterator[Run]:
    """Does those jobs that found["runs"] lacks, and keeps each in the file as soon as it is done."""
    done = {key_of(run) for run in found["runs"]}
    for run in workers.imap_unordered(train, [job for job in jobs if job.key not in done]):
        if run is None:
            continue
        found["runs"].append(run)
        write_text(path, dump(found))
        yield run


def read(path: Path) -> Run:
    return json.loads(path.read_text()) if path.exists() else {"runs": []}  # type: ignore[no-any-return]


def dump(found: Run) -> str:
    """A line for each run: they are many."""
    runs = ",\n".join("  " + json.dumps(run) for run in sorted(found["runs"], key=lambda run: repr(key_of(run))))
    rest = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items() if name != "runs"]
    return "{\n" + ",\n".join([f' "runs": [\n{runs}\n ]', *rest]) + "\n}\n"
