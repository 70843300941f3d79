"""`inv clean`: what takes room and no current plan needs. Everything here can be built or fetched again."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grstack import host
from grstack.engines import Engine, local
from grstack.engines.artefacts import MANIFEST
from grstack.engines.checkouts import Checkouts
from grstack.engines.images import Image, Images, outdated
from grstack.errors import EngineError
from grstack.execute import build_lock
from grstack.paths import Paths
from grstack.plan.current import current_plans
from grstack.session import Session
from grstack.spec import Base

GRACE = 3600  # seconds: another checkout may be at work with what was made or used since
PATIENCE = 5  # seconds that a running build is waited for
_HASH = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"[0-9a-f]{12}")
_ARTEFACT = re.compile(r"[0-9a-f]{12}|\.[0-9a-f]{12}-\d+")


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing to remove: a directory, or an image."""

    what: str
    name: str
    bytes: int
    path: Path | None = None
    parts: tuple[Path, ...] = ()  # what of `path` is removed; all of it if there are none
    image: Image | None = None


def current_keys(s: Session, engines: Sequence[Engine]) -> set[str]:
    """The keys of all that a command of this checkout may build or run, with each of these engines, and of what the
    user's other checkouts have built last."""

    def bases(base: Base, platform: str) -> set[str]:
        found = {base.reference} | ({base.bootstrap.reference} if base.bootstrap else set())
        for engine in engines:
            with contextlib.suppress(EngineError):  # it cannot have this base
                found.add(engine.resolve_base(base, platform, act=False))
        return found

    plans = current_plans(s.paths.root, s.versions, s.operators, host.arch(), bases)
    return {step.key for plan in plans for step in plan.steps} | Checkouts(s.paths).used_by_others()


def collect(paths: Paths, keep: Collection[str], images: Images | None, *, everything: bool = False) -> list[Item]:
    """What would be removed. `keep` holds the keys of the current plans; `everything` adds wheels and objects."""
    before = time.time() - GRACE
    found = [*_scratch(paths), *_local(paths, keep), *_artefacts(paths, keep, before)]
    if everything:
        found += [*_wheels(paths), *_uv(paths), *_ccache(paths)]
    if images is not None:
        ours = noted(paths)
        for image in outdated(images.all(), keep=keep, ours=ours, before=before):
            found.append(Item(what="image", name=image.name, bytes=image.unique_bytes, image=image))
    return found


def noted(paths: Paths) -> set[str]:
    """The keys of the images that builds of this user have noted."""
    return {file.name for file in paths.images.glob("*")}


def _wheels(paths: Paths) -> Iterator[Item]:
    """GRSTACK_CACHE may be a folder of the user's, with wheels of theirs in `wheels`: ours lie below their hash."""
    parts = tuple(sorted(path for path in paths.wheels.glob("*") if _HASH.fullmatch(path.name) and _is_folder(path)))
    if parts:
        size = sum(size_of(part) for part in parts)
        yield Item(what="fetched wheels", name=str(paths.wheels), bytes=size, path=paths.wheels, parts=parts)


def _uv(paths: Paths) -> Iterator[Item]:
    """uv marks a folder that it made as a cache."""
    path = paths.cache / "uv"
    if _is_folder(path) and (path / "CACHEDIR.TAG").is_file():
        yield _directory("uv's cache", path)


def _ccache(paths: Paths) -> Iterator[Item]:
    """ccache marks a folder that it made as a cache."""
    for store in sorted(paths.cache.glob("ccache/*/store")):
        if _is_folder(store) and any(store.glob("**/CACHEDIR.TAG")):
            yield _directory("compiled objects", store.parent)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _directory(what: str, path: Path) -> Item:
    return Item(what=what, name=str(path), bytes=size_of(path), path=path)


def size_of(path: Path) -> int:
    """Bytes on disk; a file with several names counts once."""
    seen: dict[tuple[int, int], int] = {}
    for file in (path, *path.rglob("*")):
        state = file.lstat()
        seen[(state.st_dev, state.st_ino)] = state.st_blocks * 512
    return sum(seen.values())


def _scratch(paths: Paths) -> Iterator[Item]:
    for path in (paths.scratch, paths.build / "test-wheels", paths.build / "opp"):
        if path.is_dir():
            yield _directory("scratch", path)


def _local(paths: Paths, keep: Collection[str]) -> Iterator[Item]:
    """Environments and prefixes of `--engine none`: <name>-<the key's first twelve digits>, with the engine's mark."""
    short = {key[:12] for key in keep}
    for path in sorted(paths.local.glob("*-*")):
        key = path.name.rpartition("-")[2]
        if _is_folder(path) and _KEY.fullmatch(key) and key not in short and local.is_ours(path):
            yield _directory("local prefix", path)


def _artefacts(paths: Paths, keep: Collection[str], before: float) -> Iterator[Item]:
    """Finished outputs by key, and what an interrupted move has left (.<key>-<pid>)."""
    short = {key[:12] for key in keep}
    for manifest in sorted(paths.artefacts.rglob(MANIFEST)):
        path = manifest.parent
        if not _ARTEFACT.fullmatch(path.name) or path.is_symlink():
            continue
        if path.name not in short and path.stat().st_mtime < before:
            yield _directory("artefact", path)


def show(items: list[Item], console: Console) -> None:
    table = Table("what", "where", "bytes freed", title="inv clean", title_justify="left")
    table.columns[1].overflow = "fold"
    table.columns[2].justify = "right"
    for item in items:
        table.add_row(item.what, Text(item.name), human(item.bytes))
    table.add_section()
    least = "at least " if any(item.image for item in items) else ""
    table.add_row("total", "", f"{least}{human(sum(item.bytes for item in items))}")
    console.print(table)


def show_unknown(paths: Paths, keep: Collection[str], images: Images, console: Console) -> None:
    """Images that bear our label and were built by another user, or before builds were noted: never removed here."""
    ours = noted(paths)
    others = [image for image in images.all() if image.key not in ours and image.key not in keep]
    if others:
        console.print(
            f"{len(others)} images of grstack were not built, or not noted, by this user and are left alone;"
            " docker image prune removes the untagged ones",
            soft_wrap=True,
        )


def human(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes everything")


def remove(items: list[Item], paths: Paths, images: Images | None, console: Console) -> int:
    """Removes what `collect` found, while no build of this checkout runs. Returns the bytes of what is gone."""
    freed = 0
    with build_lock(paths, console, patience=PATIENCE):
        for item in items:
            if item.path is not None:
                parts = item.parts or (item.path,)
                for part in parts:
                    shutil.rmtree(part, ignore_errors=True)
                why = f"{item.path} cannot be removed" if any(part.exists() for part in parts) else ""
            else:
                assert item.image is not None and images is not None
                why = images.remove(item.image)
                if not why:
                    (paths.images / item.image.key).unlink(missing_ok=True)
            if why:
                console.print(Text(f"kept: {item.name}: {why}", style="yellow"), soft_wrap=True)
            else:
                freed += item.bytes
    return freed
