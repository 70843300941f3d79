"""torch.distributed.checkpoint's file storage, made atomic and checksummed."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.filesystem import FileSystem
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.distributed.checkpoint.utils import _create_file_view
from torch.futures import Future

from hybrid_torchrec.checkpoint.errors import CorruptCheckpoint, explained, storage_failure
from hybrid_torchrec.checkpoint.files import checksum_of_file
from hybrid_torchrec.checkpoint.folder import CheckpointFolder
from hybrid_torchrec.checkpoint.manifest import FileSum, Manifest
from hybrid_torchrec.checkpoint.summed import SummedFile

_SUMS = "checksums of a rank's files"  # travels to the coordinator among the write results


class _SummingFiles(FileSystem):
    def __init__(self) -> None:
        self.sums: dict[str, FileSum] = {}

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        if mode != "wb":
            with super().create_stream(path, mode) as stream:
                yield stream
            return
        summed: SummedFile | None = None
        try:
            summed = SummedFile(Path(path))
            yield summed
            summed.close()
        except BaseException as error:
            cause = error if isinstance(error, OSError) else summed and summed.error
            if summed is not None:
                _close_quietly(summed)
            if cause:
                raise storage_failure(cause, path, "saving") from error
            raise
        self.sums[Path(path).name] = summed.sum


def _close_quietly(file: SummedFile) -> None:
    try:
        file.close()
    except OSError:  # the disk is as full as it was; the first error is the one to tell
        return


class _WithoutCrc32:
    """The files have checksums of their own, which are verified; those of the zip archives inside are not.

    torch's switch is the process's: of savers side by side the first turns it off, and the last puts it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._savers = 0
        self._before = True

    def __enter__(self) -> None:
        with self._lock:
            if self._savers == 0:
                self._before = torch.serialization.get_crc32_options()
                torch.serialization.set_crc32_options(False)
            self._savers += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._savers -= 1
            if self._savers == 0:
                torch.serialization.set_crc32_options(self._before)


_without_crc32 = _WithoutCrc32()


class ManifestWriter(FileSystemWriter):
    """Writes a checkpoint that exists once it is complete: every rank its file, then the coordinator the manifest.

    `manifest` says what is saved; its files and tables are filled in here. The folder's name is `manifest.name`.
    Pass it to torch.distributed.checkpoint.save together with a HashSavePlanner.
    """

    def __init__(self, root: str | os.PathLike[str], manifest: Manifest) -> None:
        self.folder = CheckpointFolder(root)
        # One thread and no copying ahead: the planner makes one part of a table at a time, in order.
        temporary = self.folder.temporary(manifest.kind, manifest.step)
        super().__init__(temporary, thread_count=1, per_thread_copy_ahead=0, overwrite=False)
        self.fs = _SummingFiles()
        self.manifest = manifest
        self.saved: Manifest | None = None  # on the coordinator, once committed
        self._held = ExitStack()

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        super().reset(None)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """The coordinator's: no rank writes before this is done."""
        self._held.enter_context(self.folder.lock())
        try:
            if self.manifest.replaces is None:
                self.folder.refuse_past(self.manifest.step)
            self.folder.begin(self.manifest.kind, self.manifest.step)
            return super().prepare_global_plan(plans)
        except BaseException:
            self._held.close()
            raise

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        with _without_crc32:
            results: list[WriteResult] = super().write_data(plan, planner).wait()
        results.append(WriteResult(MetadataIndex(f"{_SUMS} {plan.storage_data.prefix}"), 0, dict(self.fs.sums)))
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        files: dict[str, FileSum] = {}
        for rank in results:
            files.update(rank.pop().storage_data)
        with explained(self.path, "saving"):
            super().finish(metadata, results)
            path = Path(self.path) / ".metadata"
            files[path.name] = FileSum(path.stat().st_size, checksum_of_file(path))
            self.saved = replace(self.manifest, files=files)
            self.saved.write(Path(self.path))
            self.folder.commit(Path(self.path))
        self.release()

    def release(self) -> None:
        """Gives the folder's lock back; also after a failed save."""
        self._held.close()


class OrderedReader(FileSystemReader):
    """Reads every file from its beginning to its end, so that the parts of a table come one after another."""

    def read_data(self, plan: LoadPlan, planner: Any) -> Future[None]:
        items = sorted(plan.items, key=self._place)
        rows = [item for item in items if item.type == LoadItemType.TENSOR and planner.is_of_table(item)]
        rest = [item for item in items if item not in rows] if rows else items
        with explained(self.path, "loading"), torch.no_grad():
            # First what the tables are, then their rows.
            done: Future[None] = super().read_data(replace(plan, items=rest), planner)
            for name, mine in groupby(rows, key=lambda item: self._place(item)[0]):
                with (Path(self.path) / name).open("rb", buffering=0) as file:
                    for item in mine:
                        target = planner.resolve_tensor(item)
                        self._read_rows(file, self.storage_data[item.storage_index], target)
                        planner.commit_tensor(item, target)
        return done

    def _read_rows(self, file: io.FileIO, place: Any, target: torch.Tensor) -> None:
        """A whole saved tensor into one of the same shape, from the file's bytes to the tensor's."""
        if target.nbytes == 0:
            return
        archive = torch._C.PyTorchFileReader(_create_file_view(file, place.offset, place.length))
        start = place.offset + archive.get_record_offset("data/0")
        into = memoryview(target.view(torch.uint8).numpy().reshape(-1))
        if start + len(into) > place.offset + place.length:
            raise CorruptCheckpoint(
                f"{file.name}: a tensor at byte {place.offset} is shorter than its shape; load an earlier checkpoint"
            )
        file.seek(start)
        while len(into):
            size = file.readinto(into)
            if not size:
                raise CorruptCheckpoint(f"{file.name}: ends at byte {start}; load an earlier checkpoint")
            into = into[size:]

    def _place(self, item: Any) -> tuple[str, int]:
        info = self.storage_data[item.storage_index]
        return info.relative_path, info.offset
