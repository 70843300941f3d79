"""Public data sets as their makers offer them: a zip, a tar or a single file, checked and unpacked into a folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rich.console import Console

from grstack.errors import DataError, HashMismatch, UsageError
from grstack.fetch._url import download_url
from grstack.network import Settings
from grstack.spec import FileData
from grstack.ticker import Ticker

BLOCK = 1 << 20
SOURCE = "source.json"  # hashes of the file and of what was taken from it


def place(name: str, dataset: FileData, dest: Path, from_file: Path | None, settings: Settings) -> Path:
    """The data set as `dest/name`. A folder that is complete is left as it is.

    Raises UsageError, HashMismatch, DataError, NetworkError; nothing of a file with a wrong hash is kept.
    """
    folder, console = dest / name, Console(stderr=True)
    if folder.exists():
        check(folder, name, console)
        return folder
    if from_file is not None and not from_file.is_file():
        raise UsageError(f"{from_file} is not a file", next_command=f"inv fetch-data {name} --from {dataset.file}")
    dest.mkdir(parents=True, exist_ok=True)
    part = dest / f".{name}.{dataset.file}.part"
    source = from_file or download_url(dataset.file, dataset.urls, part, settings, console)
    try:
        digest = _verify(name, dataset, source, console)
    except HashMismatch:
        if from_file is None:
            part.unlink()
        raise
    staging = Path(tempfile.mkdtemp(prefix=f".{name}.unpacking.", dir=dest))
    staging.chmod(0o777 & ~_umask())
    try:
        hashes = dict(sorted(_unpack(dataset, source, staging, console)))
        note = {"file": dataset.file, "sha256": digest, "members": hashes, "licence": dataset.licence}
        (staging / SOURCE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    part.unlink(missing_ok=True)
    return folder


def not_verified(dataset: object, folder: Path) -> str:
    """What the user must know of a data set that came without a published hash; empty for the others."""
    if not isinstance(dataset, FileData) or not dataset.unverified:
        return ""
    sha256 = json.loads((folder / SOURCE).read_text(encoding="utf-8"))["sha256"]
    return f"{dataset.unverified}: {dataset.file} came with sha256 {sha256}"


def check(folder: Path, name: str, console: Console) -> None:
    """Every file that was unpacked is still what it was. Raises HashMismatch with the file."""
    next_command = f"rm -r {folder} && inv fetch-data {name}"
    try:
        expected = json.loads((folder / SOURCE).read_text(encoding="utf-8"))["members"]
    except (OSError, ValueError, KeyError):
        raise DataError(
            f"{folder} was not fetched whole", where=str(folder / SOURCE), next_command=next_command
        ) from None
    for member, sha256 in expected.items():
        path = folder / member
        got = (
            _sha256_of(path, Ticker(console, f"{name}: is {member} what was fetched?"))
            if path.is_file()
            else "no such file"
        )
        if got != sha256:
            raise HashMismatch(
                f"{member} is not the file that was fetched\n  expected: sha256 {sha256}\n  got:      {got}",
                where=str(path),
                next_command=next_command,
            )


def _unpack(dataset: FileData, source: Path, folder: Path, console: Console) -> Iterator[tuple[str, str]]:
    """Name and sha256 of each wanted file, which is in `folder` then."""
    for member, reader in _members(dataset, source):
        tick, digest = Ticker(console, f"unpacking {member}"), hashlib.sha256()
        name, size = member.rpartition("/")[2], 0
        with reader as stream, (folder / name).open("wb") as sink:
            while block := stream.read(BLOCK):
                sink.write(block)
                digest.update(block)
                size += len(block)
                tick(size)
        yield name, digest.hexdigest()


def _sha256_of(path: Path, tick: Ticker) -> str:
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as reader:
        while block := reader.read(BLOCK):
            digest.update(block)
            done += len(block)
            tick(done)
    return digest.hexdigest()


def _verify(name: str, dataset: FileData, source: Path, console: Console) -> str:
    """The sha256 of `source`, after the published hash was found to be its own."""
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    tick, done = Ticker(console, f"{name}: is {source.name} the published file?"), 0
    with source.open("rb") as reader:
        while block := reader.read(BLOCK):
            sha256.update(block)
            md5.update(block)
            done += len(block)
            tick(done)
    for kind, expected, got in (
        ("sha256", dataset.sha256, sha256.hexdigest()),
        ("md5", dataset.md5, md5.hexdigest()),
    ):
        if expected and expected != got:
            raise HashMismatch(
                f"{dataset.file} is not the published file; nothing of it was kept\n"
                f"  published: {kind} {expected}\n  got:       {kind} {got}",
                where=f"data set {name}",
                next_command=f"inv fetch-data {name}   # again; or --from with a good copy",
            )
    return sha256.hexdigest()


def _members(dataset: FileData, source: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each wanted file, in the order of the archive."""
    wanted = set(dataset.members)
    try:
        if not wanted:
            yield dataset.file, source.open("rb")
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                for name in archive.namelist():
                    if name in wanted:
                        wanted.discard(name)
                        yield name, archive.open(name)
        else:
            with tarfile.open(source, "r|*") as tar:
                for entry in tar:
                    name = entry.name.removeprefix("./")
                    stream = tar.extractfile(entry) if name in wanted and entry.isfile() else None
                    if stream is not None:
                        wanted.discard(name)
                        yield name, stream
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(
            f"{source.name} cannot be unpacked: {error}",
            where=str(source),
            next_command=f"rm {source}, and fetch it again",
        ) from None
    if wanted:
        raise DataError(
            f"{dataset.file} has no {', '.join(sorted(wanted))}",
            where="versions.yaml, datasets",
            next_command=f"{'unzip -l' if zipfile.is_zipfile(source) else 'tar -tf'} {source}",
        )


def _umask() -> int:
    """The system tells it only by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
