"""Where a run writes: a folder of its own, which no other run mixes with.

A new run takes a new folder, or an empty place in one that --out names; a run that is there goes on only where that was
asked for. `--overwrite` removes what the run there wrote, and nothing else. The first process decides, the others are
told. None of this needs torch, so that a refusal comes at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gr_model.common import errors, in_image
from gr_model.run import checkpoint, run_id
from gr_model.run import leftovers as run_leftovers
from gr_model.run import log as runlog
from gr_model.run.lock import LOCK, RunFolderError, locked
from gr_model.run.run_id import RunId

LATEST = "latest"  # in the folder of runs: a link to the newest of those that were named by time


@dataclass(frozen=True)
class Place:
    """Where a run goes, and what it goes on from."""

    out: Path
    run: str
    checkpoint: Path | None = None
    new: bool = True  # whether the run begins here; else it is there already
    named: bool = True  # whether --out named the folder
    overwrite: bool = False
    continues: dict[str, Any] | None = None  # see RunId
    adopted: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Place:
        fields = json.loads(text)
        checkpoint = fields.pop("checkpoint")
        return cls(**{**fields, "out": Path(fields["out"])}, checkpoint=Path(checkpoint) if checkpoint else None)


def root() -> Path:
    """The folder of runs that --out does not name: $GRSTACK_RUNS, else ./runs."""
    return Path(os.environ.get("GRSTACK_RUNS") or "runs")


def for_new(out: Path | None, name: str, *, overwrite: bool = False) -> Place:
    """For a run that begins; `name` is that of its config."""
    if out is None:
        out = root() / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
        named = False
    else:
        named = True
        _free(out, overwrite)
    _writable(out)
    return Place(out=out, run=run_id.new(), named=named, overwrite=overwrite)


def for_same(out: Path, name: str) -> Place:
    """For the command that begins a run and goes on with it: after its newest checkpoint, if it got as far as one."""
    _refuse_busy(out)
    mark = run_id.read(out)
    if mark is None:
        if not run_leftovers.found(out):
            return for_new(out, name)
        if checkpoint.newest(out) is None:
            _free(out, overwrite=False)
    return _in_place(out, mark, checkpoint.newest(out))


def for_resume(run: Path, out: Path | None, *, overwrite: bool = False) -> Place:
    """For a run that goes on after checkpoint `run`, or the newest of the run's folder `run`.

    In the run's own folder it is the same run; in another one a new run, which begins there.
    """
    begun = run.parent.parent if run.parent.name == checkpoint.FOLDER else run
    if out is None or out.resolve() == begun.resolve():
        _refuse_busy(begun)
    chosen = checkpoint.find(run)
    home = chosen.parent.parent if chosen.parent.name == checkpoint.FOLDER else None
    if out is None and home is None:
        raise RunFolderError(f"{chosen}: lies in no run's folder\n  next: the same command with --out FOLDER")
    if out is None or (home is not None and out.resolve() == home.resolve()):
        assert home is not None
        if overwrite:
            raise RunFolderError(f"{home}: --overwrite would remove the run that --resume goes on with; leave one out")
        mark = run_id.read(home)
        _only_newest(home, chosen, mark)
        return _in_place(out or home, mark, chosen)
    place = for_new(out, "", overwrite=overwrite)
    note = checkpoint.read_run(chosen)
    continues = {"run": note.get("run", ""), "step": note["step"], "checkpoint": str(chosen)}
    return replace(place, checkpoint=chosen, continues=continues)


@contextmanager
def claimed(place: Place, name: str, config: dict[str, Any]) -> Iterator[tuple[Place, list[str]]]:
    """Makes the folder the run's own while this is open, as one process writes it; with what there is to say.

    RunFolderError where another run took the place meanwhile.
    """
    said = []
    try:
        place = _made(place)
    except OSError as error:
        raise RunFolderError(errors.of_system(error)) from error
    with locked(place.out):
        if place.new:
            _free(place.out, place.overwrite)
            run_leftovers.remove(place.out)
            run_id.write(place.out, RunId(place.run, name, config, place.continues))
            if not place.named:
                said += _link(place.out)
        elif place.adopted:
            run_id.write(place.out, RunId(place.run, name, config, adopted=True))
        yield place, said


def warn_of_loss(place: Place) -> str:
    """A warning where what the run writes goes with the container; "" elsewhere."""
    if not in_image.goes_with_container(place.out):
        return ""
    mounted = _q((place.out if place.named else place.out.parent).absolute())
    return (
        f"warning: {place.out} is inside this container and gone with it (docker run --rm)\n"
        f'  next: mount a folder there: docker run -v "$PWD/out":{mounted} ...'
    )


def _in_place(out: Path, mark: RunId | None, found: Path | None) -> Place:
    _writable(out)
    if mark is not None:
        return Place(out=out, run=mark.run, checkpoint=found, new=False)
    return Place(out=out, run=run_id.new(), checkpoint=found, new=False, adopted=True)


def _only_newest(home: Path, chosen: Path, mark: RunId | None) -> None:
    """A run does not go back in its own folder: the checkpoints after that step would be of two runs, under one id."""
    wrote = checkpoint.run_of(chosen)
    if mark is not None and wrote != mark.run and not (mark.adopted and not wrote):
        raise RunFolderError(
            f"{chosen}: is of run {wrote or 'without an id'}, the folder holds run {mark.run}\n"
            f"  next: --resume {_q(chosen)} --out ANOTHER_FOLDER"
        )
    later = [folder for folder in checkpoint.every(home) if folder.name > chosen.name]
    if later:
        raise RunFolderError(
            f"{chosen}: the run has gone on since, to {later[-1].name}\n"
            f"  next: --resume {_q(home)} to go on from there, or --resume {_q(chosen)} --out ANOTHER_FOLDER for a run "
            "that branches off"
        )


def _free(out: Path, overwrite: bool) -> None:
    """RunFolderError where a run is, or would write over what is not its own."""
    there = run_leftovers.found(out)
    if not there:
        return
    mark = run_id.read(out)
    if mark is None:
        raise RunFolderError(
            f"{out}: has {', '.join(there)}, of no run that is marked as such; nothing was changed\n"
            f"  next: another --out" + (f", or --resume {_q(out)} to go on" if checkpoint.every(out) else "")
        )
    if not overwrite and not _no_step(out, there):
        last = checkpoint.newest(out)
        at = f", checkpoint {last.name}" if last else ""
        go_on = f"--resume {_q(out)} to go on with it, " if last else ""
        raise RunFolderError(
            f"{out}: holds run {mark.run} ({mark.name}{at}); nothing was changed\n"
            f"  next: {go_on}another --out (without one a run gets a new folder), or --overwrite to remove "
            "what that run wrote"
        )
    foreign = run_leftovers.foreign(out, mark.run)
    if foreign:
        raise RunFolderError(
            f"{out}: {', '.join(foreign)} is not of run {mark.run}; nothing was changed\n"
            "  next: move it away, or take another --out"
        )


def _no_step(out: Path, there: list[str]) -> bool:
    """Whether the run there ended before its first step: the command that is mended may take its place."""
    if not set(there) <= {run_id.FILE, run_leftovers.LOG, run_leftovers.ITEMS, run_leftovers.DATA}:
        return False
    log = out / run_leftovers.LOG
    return not log.exists() or not any(event["event"] == "step" for event in runlog.read(log))


def _writable(out: Path) -> None:
    """Tells of a folder that cannot be made or written before anything is loaded."""
    there = next(folder for folder in (out, *out.absolute().parents) if os.path.lexists(folder))
    if not there.is_dir():
        raise RunFolderError(f"{there}: is not a folder\n  next: another --out")
    if not os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise RunFolderError(
            f"{there}: user {os.geteuid()} may not write there\n"
            f"  next: another --out, or open the folder: ls -ld {_q(there)}"
        )


def _made(place: Place) -> Place:
    if place.named:
        place.out.mkdir(parents=True, exist_ok=True)
        return place
    place.out.parent.mkdir(parents=True, exist_ok=True)
    name = place.out.name  # of a config that may have dots
    for number in range(2, 1000):
        try:
            place.out.mkdir()
            return place
        except FileExistsError:  # a run of the same second
            place = replace(place, out=place.out.with_name(f"{name}.{number}"))
    raise RunFolderError(f"{place.out}: a thousand runs of one second\n  next: the same command with --out FOLDER")


def _refuse_busy(out: Path) -> None:
    """RunFolderError where a process writes the run: its checkpoints come and go while they are looked at."""
    if (out / LOCK).exists():
        _writable(out)
        with locked(out):
            pass


def _link(out: Path) -> list[str]:
    link = out.parent / LATEST
    if link.exists() and not link.is_symlink():
        return [f"{link} is a folder, so it does not name the newest run"]
    beside = link.with_name(f".{LATEST}.{os.getpid()}")
    with contextlib.suppress(OSError):  # a file system without links
        beside.unlink(missing_ok=True)
        beside.symlink_to(out.name)
        beside.replace(link)
    return []


def _q(path: Path) -> str:
    return shlex.quote(str(path))
