"""Files of checkpoints: written past the page cache or not, in pieces of any size, also where the disk ends short."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path

import pytest
from hybrid_torchrec.checkpoint import summed
from hybrid_torchrec.checkpoint.files import checksum_of_file
from hybrid_torchrec.checkpoint.manifest import FileSum
from hybrid_torchrec.checkpoint.summed import SummedFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BLOCK = 8192
SIZES = st.sampled_from([0, 1, 7, 4095, 4096, 4097, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 5])


@pytest.fixture(params=["direct", "refused when it is set", "refused when it is written"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """File systems: those that write directly, and those that do not, and say so sooner or later."""
    monkeypatch.setattr(summed, "BLOCK_BYTES", BLOCK)
    control, write = fcntl.fcntl, os.write
    direct: dict[int, bool] = {}

    def fcntl_(handle: int, command: int, flags: int = 0) -> int:
        if command == fcntl.F_SETFL:
            if flags & os.O_DIRECT and request.param == "refused when it is set":
                raise OSError(errno.EINVAL, "no")
            direct[handle] = bool(flags & os.O_DIRECT)
            if request.param == "refused when it is written":
                return 0
        return control(handle, command, flags)

    def write_(handle: int, data: memoryview) -> int:
        if direct.get(handle):
            places = len(data), os.lseek(handle, 0, os.SEEK_CUR), summed.np.frombuffer(data, "u1").ctypes.data
            assert all(place % 4096 == 0 for place in places), places
            if request.param == "refused when it is written":
                raise OSError(errno.EINVAL, "no")
        return write(handle, data)

    monkeypatch.setattr(summed.fcntl, "fcntl", fcntl_)
    monkeypatch.setattr(summed.os, "write", write_)
    return str(request.param)


@given(pieces=st.lists(st.tuples(SIZES, st.booleans()), max_size=8))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_what_was_written_is_there(disk: str, pieces: list[tuple[int, bool]]) -> None:
    """synced: what came before it is in the file, whatever follows."""
    with tempfile.TemporaryDirectory() as folder:
        path, written = Path(folder) / "file", b""
        file = SummedFile(path)
        for number, (size, synced) in enumerate(pieces):
            data = bytes((number + k * 31) % 251 for k in range(size))
            assert file.write(data) == size
            written += data
            assert file.tell() == len(written)
            if synced:
                os.fsync(file.fileno())
                assert path.read_bytes() == written
        file.close()
        file.close()
        assert path.read_bytes() == written
        assert file.sum == FileSum(len(written), checksum_of_file(path))


def test_writes_that_end_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is written directly, too: whatever comes then has another alignment."""
    monkeypatch.setattr(summed, "BLOCK_BYTES", BLOCK)
    write, sizes = os.write, iter([4096, 100, 1, 5000] * 100)

    def short(handle: int, data: memoryview) -> int:
        flags = fcntl.fcntl(handle, fcntl.F_GETFL)
        assert not flags & os.O_DIRECT or len(data) % 4096 == 0
        fcntl.fcntl(handle, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        size = write(handle, data[: next(sizes)])
        fcntl.fcntl(handle, fcntl.F_SETFL, flags)
        return size

    monkeypatch.setattr(summed.os, "write", short)
    data = bytes(k * 7 % 251 for k in range(5 * BLOCK + 17))
    file = SummedFile(tmp_path / "file")
    file.write(data)
    file.close()
    assert (tmp_path / "file").read_bytes() == data and file.sum.bytes == len(data)


def test_a_disk_that_is_full_is_known(tmp_path: Path, disk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(summed.os, "write", full)
    file = SummedFile(tmp_path / "file")
    with pytest.raises(OSError, match="No space"):
        file.write(bytes(2 * BLOCK))
    assert file.error is not None and file.error.errno == errno.ENOSPC
    with pytest.raises(OSError, match="No space"):
        file.close()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(file._handle)
