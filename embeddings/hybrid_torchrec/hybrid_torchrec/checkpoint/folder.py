"""CheckpointFolder: the complete checkpoints of a run, the torn ones, and who may write."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hybrid_torchrec.checkpoint.errors import BrokenChain, CheckpointError, NoCheckpoint, explained
from hybrid_torchrec.checkpoint.files import names_in, sync_folder
from hybrid_torchrec.checkpoint.manifest import NAME, Manifest, folder_name
from hybrid_torchrec.checkpoint.removal import REMOVED, mark_complete, mark_unfinished, remove_folder, remove_torn

_log = logging.getLogger(__name__)
_SAVING = ".saving-"
_COMPLETE = re.compile(r"(full|delta|export)-(\d{12})")


@dataclass(frozen=True)
class Entry:
    path: Path
    kind: str
    step: int

    @property
    def manifest(self) -> Manifest:
        return Manifest.read(self.path)


class CheckpointFolder:
    """Layout of `root`: `full-<step>/`, `delta-<step>/`, and `.saving-<name>/` while one is written.

    A checkpoint exists once its folder has its name: it is written under `.saving-`, synced, and renamed last. What
    else is in `root` is not ours, whatever its name: it stays (checkpoint/removal.py).
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def entries(self, kinds: tuple[str, ...] = ("full", "delta")) -> list[Entry]:
        """Complete checkpoints, by step, a delta before a full one of the same step."""
        matches = [_COMPLETE.fullmatch(name) for name in names_in(self.root)]
        found = [
            Entry(self.root / match[0], match[1], int(match[2])) for match in matches if match and match[1] in kinds
        ]
        found = [entry for entry in found if (entry.path / NAME).exists()]
        return sorted(found, key=lambda entry: (entry.step, entry.kind))

    def torn(self) -> list[Path]:
        """What looks like something that an unfinished save or removal left behind."""
        return sorted(
            path
            for path in (self.root / name for name in names_in(self.root))
            if path.name.startswith((_SAVING, REMOVED))
            or (_COMPLETE.fullmatch(path.name) and not (path / NAME).exists())
        )

    def latest(self) -> Entry:
        """The newest complete checkpoint; torn ones are named in the log. Raises NoCheckpoint."""
        for path in self.torn():
            _log.warning("%s: an unfinished save or removal, ignored; the next save removes it if it is marked", path)
        entries = self.entries()
        if not entries:
            torn = ", ".join(path.name for path in self.torn())
            raise NoCheckpoint(
                f"{self.root}: no complete checkpoint" + (f" (unfinished: {torn})" if torn else "") + "; save one first"
            )
        return entries[-1]

    def at(self, step: int) -> Entry:
        """The checkpoint of `step`, a full one if there are both."""
        found = [entry for entry in self.entries() if entry.step == step]
        if not found:
            steps = ", ".join(sorted({str(entry.step) for entry in self.entries()}, key=int)) or "none"
            raise NoCheckpoint(f"{self.root}: no checkpoint of step {step}; complete ones: {steps}")
        return found[-1]

    def chain(self, last: Entry) -> list[Entry]:
        """The full checkpoint and the deltas, in order, that together are `last`. Raises BrokenChain by name."""
        chain = [last]
        while (manifest := chain[-1].manifest).kind == "delta":
            chain.append(self._before(chain[-1], manifest))
        return chain[::-1]

    def _before(self, entry: Entry, manifest: Manifest) -> Entry:
        """What a delta follows, or the full checkpoint that stands in for that."""
        name = manifest.follows or ""
        match = _COMPLETE.fullmatch(name)
        if not match:
            raise BrokenChain(f"{entry.path}: its manifest names no checkpoint that it follows; load an earlier one")
        step = int(match[2])
        for kind in ("full", match[1]):
            path = self.root / folder_name(kind, step)
            if not (path / NAME).exists():
                continue
            before = Manifest.read(path)
            whole = before.digest == manifest.previous and before.sequence == manifest.sequence - 1
            if whole or before.replaces == manifest.previous:
                return Entry(path, kind, step)
        path = self.root / name
        if (path / NAME).exists():
            raise BrokenChain(
                f"{entry.path}: delta {manifest.sequence} follows a {name} of checksum {manifest.previous}, and {path} "
                f"is of another run. Restore the folder that was replaced, or load a step before {entry.step}"
            )
        raise BrokenChain(
            f"{entry.path}: delta {manifest.sequence} follows {name}, which is missing from {self.root}; "
            f"restore {name}, or load a step before {entry.step}"
        )

    def temporary(self, kind: str, step: int) -> Path:
        return self.root / f"{_SAVING}{folder_name(kind, step)}"

    def refuse_past(self, step: int) -> None:
        """Raises CheckpointError if there is a later checkpoint: it would be taken for the newest of this run."""
        later = [entry.path.name for entry in self.entries() if entry.step > step]
        if later:
            raise CheckpointError(
                f"{self.root}: cannot save step {step}: {', '.join(later)} went further, and would be loaded first; "
                "move what went further away, or save to another folder"
            )

    def begin(self, kind: str, step: int) -> Path:
        """An empty temporary folder, after removing what was torn. The caller holds the lock."""
        final, temporary = self.root / folder_name(kind, step), self.temporary(kind, step)
        if os.path.lexists(final):
            raise CheckpointError(
                f"{final}: exists already; move it away, save another step, or save to another folder"
            )
        with explained(self.root, "starting to save"):
            for path in self.torn():
                if not remove_torn(path):
                    _log.info("%s: nothing says that this library wrote it; it stays", path)
            if os.path.lexists(temporary):
                raise CheckpointError(
                    f"{temporary}: stands where step {step} is to be written, and nothing says that this library wrote "
                    f"it; look into it, move it away (`mv {temporary} ELSEWHERE`), and save again"
                )
            temporary.mkdir()
            mark_unfinished(temporary)
        return temporary

    def commit(self, temporary: Path) -> Path:
        final = self.root / temporary.name.removeprefix(_SAVING)
        with explained(final, "committing"):
            mark_complete(temporary)
            temporary.rename(final)
            sync_folder(self.root)
        return final

    def keep_last(self, count: int, run: str) -> list[str]:
        """Keeps the last `count` full checkpoints of `run` with the deltas behind them, and all of other runs.

        Returns the names of those removed.
        """
        entries = [entry for entry in self.entries() if self._run_of(entry) == run]
        full = [entry for entry in entries if entry.kind == "full"]
        if len(full) <= count:
            return []
        oldest = full[-count].step
        # The newest first: a kill in between leaves chains that are whole.
        doomed = [entry for entry in entries if entry.step < oldest or (entry.step == oldest and entry.kind == "delta")]
        for entry in reversed(doomed):
            remove_folder(entry.path)
        return [entry.path.name for entry in doomed]

    @staticmethod
    def _run_of(entry: Entry) -> str | None:
        try:
            return entry.manifest.run
        except CheckpointError as error:  # whose it is cannot be told
            _log.warning("%s; it stays", error)
            return None

    @contextmanager
    def lock(self, patience: float = 600.0) -> Iterator[None]:
        """One writer at a time, for whom others wait `patience` seconds; a holder that dies gives the lock back."""
        path = self.root / ".lock"
        with explained(path, "opening the lock"):
            self.root.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            deadline = time.monotonic() + patience
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise CheckpointError(
                            f"{self.root}: another save or compaction has gone on here for {patience:.0f} s; "
                            "let it finish, or save to another folder"
                        ) from None
                time.sleep(0.05)
            yield
        finally:
            os.close(handle)
