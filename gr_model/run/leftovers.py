"""What a run leaves in its folder, by name and by the run's id: what a new run must not mix with, and may remove.

Names alone say that a run is there. What --overwrite removes is what the run wrote: a run begins only where none of
these names is taken, and what several runs could have put under one name (checkpoints, curves, batches) carries an id.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from gr_model.run import checkpoint, run_id

LOG, METRICS, REPORT = "log.jsonl", "metrics.json", "report.html"
ITEMS, DATA, RECOMMENDED = "items.parquet", "data.json", "recommendations.csv"
FIGURES = ("loss.png", "metrics.png", "speed.png", "memory.png")
BOARD, DIVERGED = "tensorboard", "diverged"
FILES = (LOG, METRICS, REPORT, ITEMS, DATA, RECOMMENDED, *FIGURES)
FOLDERS = (checkpoint.FOLDER, BOARD, DIVERGED)


def found(out: Path) -> list[str]:
    """Names of a run that are taken in `out`; an empty folder takes none."""
    names = [name for name in (run_id.FILE, *FILES) if (out / name).exists() or (out / name).is_symlink()]
    return names + [name for name in FOLDERS if (out / name).exists() and not _empty(out / name)]


def foreign(out: Path, run: str) -> list[str]:
    """What stands under those names and is not of `run`."""
    own = set(_own(out, run))
    held = [entry for name in FOLDERS if (out / name).is_dir() for entry in sorted((out / name).iterdir())]
    strange = [entry for entry in held if entry not in own]
    strange += [entry for folder in checkpoint.of_run(out, run) for entry in checkpoint.foreign(folder)]
    return [str(entry.relative_to(out)) for entry in strange]


def remove(out: Path) -> None:
    """What the run of the folder wrote; its mark last, so that a kill leaves the rest to a second try."""
    mark = run_id.read(out)
    if mark is None:
        return
    for entry in _own(out, mark.run):
        if entry.is_dir():
            checkpoint.remove(entry) if (entry / checkpoint.RUN).exists() else shutil.rmtree(entry)
        else:
            entry.unlink()
    for name in FOLDERS:
        if (out / name).is_dir():
            (out / name).rmdir()
    for name in (*FILES, run_id.FILE):
        (out / name).unlink(missing_ok=True)


def board_suffix(run: str) -> str:
    """What the names of a run's files for TensorBoard end in."""
    return f".{run}"


def batch_name(run: str, step: int, process: str) -> str:
    """The file of a batch that diverged."""
    return f"step-{step:08d}-process-{process}.{run}.pt"


def _own(out: Path, run: str) -> Iterator[Path]:
    """In the folders."""
    yield from checkpoint.of_run(out, run)
    # Saves that a kill cut off; without a note yet, they are of the run that has marked the folder.
    cut_off = [path for form in (".step-*", ".before-step-*") for path in (out / checkpoint.FOLDER).glob(form)]
    yield from (path for path in cut_off if not (path / checkpoint.RUN).exists() or checkpoint.run_of(path) == run)
    yield from (out / BOARD).glob(f"*{board_suffix(run)}")
    yield from (out / DIVERGED).glob(f"*.{run}.pt")


def _empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())
