"""Savers, publishers, consumers and measurements that do their work at the same time, or after one of them failed."""

from __future__ import annotations

import shutil
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.checkpoint import Checkpointer, CheckpointError, TableShard
from hybrid_torchrec.checkpoint import changes as changes_of
from hybrid_torchrec.checkpoint.changes import ChangeReader
from hybrid_torchrec.checkpoint.errors import StorageFailure
from hybrid_torchrec.checkpoint.manifest import Manifest
from hybrid_torchrec.checkpoint.storage import ManifestWriter
from hybrid_torchrec.serving import Consumer, Publisher
from hybrid_torchrec.serving.layout import StreamShard
from small_tables import all_rows, make_table, train
from torch.distributed.checkpoint import FileSystemWriter

PATIENCE = 30.0  # seconds; only a test that fails waits as long


def test_a_save_that_cannot_begin_leaves_no_table_copying(tmp_path: Path) -> None:
    """The snapshot of the first table was taken when the second refused."""
    first, second = make_table(name="a"), make_table(name="b")
    for table in (first, second):
        train(table, 0)
    checkpointer = Checkpointer(tmp_path, {"a": first, "b": second})
    second.update(second.assign(torch.arange(3), train=True), torch.ones(3, 6), apply=False)
    with pytest.raises(CheckpointError, match="gradients wait"):
        checkpointer.save_async(1)
    assert first.before_change == [] and second.before_change == []
    second.apply_gradients()
    checkpointer.save_async(1).wait(PATIENCE)
    assert checkpointer.steps() == [1] and first.before_change == []


def test_savers_side_by_side_leave_torchs_checksums_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one to begin is the first one to end."""
    tables = [make_table(), make_table()]
    for table in tables:
        train(table, 0)
    checkpointers = [Checkpointer(tmp_path / str(k), {"user": table}) for k, table in enumerate(tables)]
    begun = [threading.Event(), threading.Event()]
    write_data = FileSystemWriter.write_data

    def in_turn(self: ManifestWriter, plan: object, planner: object) -> object:
        saver = int(self.folder.root.name)
        begun[saver].set()
        assert begun[1].wait(PATIENCE)
        if saver == 1:
            pending.wait(PATIENCE)
        return write_data(self, plan, planner)

    monkeypatch.setattr(FileSystemWriter, "write_data", in_turn)
    before = torch.serialization.get_crc32_options()
    try:
        pending = checkpointers[0].save_async(1)
        assert begun[0].wait(PATIENCE)
        checkpointers[1].save(1)
        assert torch.serialization.get_crc32_options() == before
    finally:
        torch.serialization.set_crc32_options(before)


class SlowSet(weakref.WeakSet[ChangeReader]):
    """Whoever walks over it on another thread than the test's is overtaken by who does not wait for it."""

    def __init__(self, of: list[ChangeReader]) -> None:
        super().__init__(of)
        self.walking = threading.Event()
        self.overtaken = threading.Event()

    def __iter__(self) -> Iterator[ChangeReader]:
        for reader in super().__iter__():
            yield reader
            if threading.current_thread() is not threading.main_thread():
                self.walking.set()
                self.overtaken.wait(0.2)


def test_a_publisher_starts_while_a_save_commits() -> None:
    table = make_table()
    readers = [ChangeReader(table), ChangeReader(table)]
    changes_of._readers[table] = slow = SlowSet(readers)
    failures: list[Exception] = []

    def commit() -> None:
        try:
            readers[0].commit(readers[0].mark())
        except Exception as error:
            failures.append(error)

    saving = threading.Thread(target=commit, daemon=True)
    saving.start()
    assert slow.walking.wait(PATIENCE)
    publisher = ChangeReader(table)
    slow.overtaken.set()
    saving.join(PATIENCE)
    assert failures == [] and publisher in slow


def test_size_waits_for_a_change_that_is_under_way() -> None:
    """The map of ids is not to be measured while it grows."""
    table = make_table()
    train(table, 0)
    measured: list[int] = []
    with table.exclusive():
        reader = threading.Thread(target=lambda: measured.append(table.bytes()), daemon=True)
        reader.start()
        reader.join(0.05)
        assert reader.is_alive()
    reader.join(PATIENCE)
    assert measured == [table.bytes()]


def test_a_stream_that_is_removed_while_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher removes the runs before the last while servers still look into them."""
    monkeypatch.setattr(Path, "is_dir", lambda _: True)  # it was there just now
    shard = StreamShard.of(tmp_path, "gone", 0, 1)
    assert shard.sequences() == [] and shard.bases() == []


def test_a_base_that_is_removed_while_it_is_loaded_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was old; to ask for another would have the trainers write all rows once more."""
    table = make_table()
    train(table, 0)
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    base = publisher.shard.bases()[0].path
    verify = Manifest.verify

    def too_late(self: Manifest, folder: Path, *share: int) -> None:
        shutil.rmtree(base, ignore_errors=True)
        verify(self, folder, *share)

    monkeypatch.setattr(Manifest, "verify", too_late)
    consumer = Consumer(tmp_path, name="c")
    assert consumer.poll() == 0
    assert publisher.shard.requests() == []
    monkeypatch.setattr(Manifest, "verify", verify)
    train(table, 1)
    publisher.publish(1)
    publisher.publish_base(1)
    while consumer.poll():
        pass
    rows = all_rows(table)
    assert torch.equal(consumer.lookup("user", rows.ids)[0], rows.weights)


def test_a_server_goes_on_after_whatever_it_meets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table()
    train(table, 0)
    Publisher(tmp_path, {"user": TableShard(table)})
    poll, faults = Consumer.poll, [FileNotFoundError("a folder that just went"), ValueError("a row of another width")]

    def poll_badly(self: Consumer) -> int:
        if faults:
            raise faults.pop()
        return poll(self)

    monkeypatch.setattr(Consumer, "poll", poll_badly)
    with Consumer(tmp_path, name="c", interval=0.001) as consumer:
        assert consumer.wait_ready(PATIENCE)
        assert consumer.metrics.value("poll_errors") == 2


def test_a_base_that_was_asked_for_is_written_later_if_the_disk_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers ask once."""
    table = make_table()
    train(table, 0)
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    publisher.shard.request_base("c", "a gap")

    def full(*_: object, **__: object) -> Path:
        raise StorageFailure("no space left")

    with monkeypatch.context() as disk:
        disk.setattr("hybrid_torchrec.serving.publisher.write_alone", full)
        with pytest.raises(StorageFailure):
            publisher.publish(1)
    publisher.publish(2)
    assert [base.step for base in publisher.shard.bases()] == [0, 2]
    publisher.publish(3)
    assert [base.step for base in publisher.shard.bases()] == [0, 2]
