"""Checkpoints.

A run writes folders of torch.distributed.checkpoint: every process writes its own part, and any number of processes can
read them. `save` and `load` are for one process and one file. Which checkpoints there are is known without torch.
"""

from __future__ import annotations

import json
import pickle
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gr_model.common import files
from gr_model.common.errors import GrModelError
from gr_model.common.files import replacing
from gr_model.run import run_id

if TYPE_CHECKING:
    from gr_model.runtime.world import World

FORMAT = 1
FOLDER = "checkpoints"
RUN = "run.json"  # what is not a tensor; written last, so that a folder that has it is whole


class RunCheckpointError(GrModelError, RuntimeError):
    pass


def save(path: Path, state: dict[str, Any]) -> None:
    if "rows" in state:
        raise RunCheckpointError(f"{path}: one file cannot hold tables that grow (hash, embcache); use save_run")
    import torch

    with replacing(path) as file:
        torch.save({"format": FORMAT, **_to_cpu(state)}, file)


def load(path: Path) -> dict[str, Any]:
    """Tensors on the CPU; only plain data is read, never code."""
    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise RunCheckpointError(f"{path}: no such checkpoint") from None
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
        raise RunCheckpointError(f"{path}: not a readable checkpoint ({error})") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise RunCheckpointError(f"{path}: not a checkpoint of format {FORMAT}")
    return state


def save_run(out: Path, state: dict[str, Any], world: World, *, run: str, keep: int = 2) -> Path:
    """Writes out/checkpoints/step-N, of all processes, and removes all but the newest `keep` of `run`.

    Returns the folder, which gets its name when it is whole. `state`: config and step as plain data, the rest tensors.
    RunCheckpointError where it cannot be written; what was whole before stays.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException

    final = out / FOLDER / f"step-{state['step']:08d}"
    staging = final.with_name(f".{final.name}")
    if world.first:
        if final.exists() and run_of(final) != run:
            raise RunCheckpointError(f"{final}: is there and not of run {run}; move it away, or take another --out")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True, exist_ok=True)
    world.barrier()
    try:
        with _alone_is_fine():
            dcp.save(_tensors(state), checkpoint_id=staging, planner=_planner(state, "HashSavePlanner"))
    except CheckpointException as error:
        reasons = {str(failure) for failure, _ in error.failures.values()}
        raise RunCheckpointError(f"{final}: cannot be written: {'; '.join(sorted(reasons))}") from error
    world.barrier()
    if world.first:
        written = sorted(str(path.relative_to(staging)) for path in staging.rglob("*") if path.is_file())
        note = {
            "format": FORMAT,
            "run": run,
            "step": state["step"],
            "config": state["config"],
            "processes": world.size,
            "files": written,
        }
        files.write_text(staging / RUN, json.dumps(note, indent=1) + "\n")
        _take_name(staging, final)
        for old in of_run(out, run)[:-keep]:
            remove(old)
    world.barrier()
    return final


def remove(folder: Path) -> None:
    """What the run wrote of a checkpoint, its note first; the folder stays if somebody else's files are in it."""
    written = _written(folder)
    (folder / RUN).unlink()  # from here on it is no checkpoint
    for name in written:
        (folder / name).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def foreign(folder: Path) -> list[Path]:
    """What stands in a checkpoint's folder and was not written by its run."""
    own = {folder / name for name in (RUN, *_written(folder))}
    return [entry for entry in sorted(folder.iterdir()) if entry not in own]


def _written(folder: Path) -> list[str]:
    return [str(name) for name in read_run(folder).get("files", [])]


def _take_name(staging: Path, final: Path) -> None:
    """A step that is saved again takes the place of the one before; a kill in between leaves both, hidden."""
    if not final.exists():
        staging.rename(final)
        return
    before = final.with_name(f".before-{final.name}")
    final.rename(before)
    staging.rename(final)
    others = foreign(before)
    for entry in others:
        entry.rename(final / entry.name)
    remove(before)


def find(path: Path) -> Path:
    """The checkpoint that is meant: the folder itself, or the newest whole one of a run."""
    if (path / RUN).exists():
        return path
    found = newest(path)
    if found is None:
        run = _run_below(path)
        said = f"\n  next: a run has a folder of its own; the same command with {run}" if run else ""
        raise RunCheckpointError(f"{path}: no whole checkpoint is there, neither step-N nor {FOLDER}/step-N{said}")
    return found


def _run_below(path: Path) -> Path | None:
    """The newest run of those that a folder holds, by the link that names it where there is one."""
    runs = [each.parent for each in path.glob(f"*/{run_id.FILE}") if every(each.parent)]
    links = [run for run in runs if run.is_symlink()]
    return max(links or runs, key=lambda run: (run / run_id.FILE).stat().st_mtime, default=None)


def newest(out: Path) -> Path | None:
    """The newest whole checkpoint of the run that `out` holds."""
    mark = run_id.read(out)
    if mark is not None:
        own = of_run(out, mark.run) or (of_run(out, "") if mark.adopted else [])
        return own[-1] if own else None
    whole = every(out)
    runs = {run_of(folder) for folder in whole}
    if len(runs) > 1:
        told = ", ".join(f"{folder.name} of {run_of(folder) or 'an older version'}" for folder in whole)
        raise RunCheckpointError(
            f"{out / FOLDER}: checkpoints of several runs ({told}); name one: --resume {whole[-1]}"
        )
    return whole[-1] if whole else None


def every(out: Path) -> list[Path]:
    """All whole checkpoints in a run's folder, whichever run wrote them, by step."""
    return sorted(path.parent for path in (out / FOLDER).glob(f"step-*/{RUN}"))


def of_run(out: Path, run: str) -> list[Path]:
    """Those of one run; "": those of versions that wrote no ids."""
    return [folder for folder in every(out) if run_of(folder) == run]


def run_of(folder: Path) -> str:
    """The id of the run that wrote a checkpoint; "" of one without."""
    try:
        return str(json.loads((folder / RUN).read_text(encoding="utf-8")).get("run", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def read_run(folder: Path) -> dict[str, Any]:
    """Step and config of a checkpoint."""
    try:
        note: dict[str, Any] = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunCheckpointError(f"{folder / RUN}: not readable ({error})") from error
    if note.get("format") != FORMAT:
        raise RunCheckpointError(f"{folder}: not a checkpoint of format {FORMAT}")
    return note


def load_run(folder: Path, state: dict[str, Any]) -> dict[str, Any]:
    """The checkpoint's content in the shape of `state`, a state of the run that goes on; on every process its part.

    Rows of tables that grow (hash, embcache) come into the tables themselves, which `state` names.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException

    tensors = _tensors(state)
    try:
        with _alone_is_fine():
            dcp.load(tensors, checkpoint_id=folder, planner=_planner(state, "HashLoadPlanner"))
    except (CheckpointException, RuntimeError, KeyError, ValueError, OSError) as error:
        first = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise RunCheckpointError(f"the checkpoint does not fit this model and data: {folder}: {first}") from error
    return {**state, **tensors, "step": read_run(folder)["step"]}


def _planner(state: dict[str, Any], name: str) -> Any:
    """How many rows a table has that grows is known only where it is saved, so it needs a planner of its own."""
    if "rows" not in state:
        return None
    from hybrid_torchrec import checkpoint as tables

    return getattr(tables, name)()


@contextmanager
def _alone_is_fine() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.distributed is (disabled, )?unavailable or uninitialized.*")
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", message="TypedStorage is deprecated.*")
        yield


def _tensors(state: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty: a process without rows of a table has no state of its optimizer, and asks for none."""
    return {key: value for key, value in state.items() if key not in ("config", "step") and value != {}}


def _to_cpu(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _to_cpu(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_to_cpu(item) for item in value)
    return value
