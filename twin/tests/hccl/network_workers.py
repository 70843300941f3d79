"""The sockets and threads of a rank, and who else comes to them."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
from hccl_api import (
    FP32,
    HcclError,
    Job,
)
from samples import require_equal


def connections(job: Job) -> Any:
    """How many established sockets of each family this process has to its peer."""
    comm = job.communicator()
    comm.all_reduce(np.ones(4, np.float32), FP32)
    own = {os.readlink(d) for d in Path("/proc/self/fd").iterdir() if d.is_symlink()}
    inodes = {name[8:-1] for name in own if name.startswith("socket:[")}
    unix = [line.split() for line in Path("/proc/self/net/unix").read_text().splitlines()[1:]]
    tcp = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    # The directory's connections end when all ranks have entered; 01 is "established", 03 "connected".
    found = {
        "tcp": sum(row[9] in inodes and row[3] == "01" for row in tcp),
        "unix": sum(row[6] in inodes and row[5] == "03" for row in unix),
    }
    comm.all_reduce(np.ones(4, np.float32), FP32)
    return found


def strangers(job: Job) -> Any:
    """Before rank 1 joins, strangers talk to rank 0's listeners: silence, and what ranks of another job say."""
    open_before = _listening()
    if job.rank == 0:
        comm = job.communicator()
        held = []
        for port in _listening() - open_before:
            for words in (b"", _false_entry(), _false_hello()):  # as many as wait for a job of two ranks
                held.append(socket.create_connection(("127.0.0.1", port)))
                held[-1].sendall(words)
        assert held, "nothing listens"
        job.publish("disturbed")
    else:
        job.await_file("disturbed")
        comm = job.communicator()
    found = comm.all_reduce(np.full(4, job.rank + 1.0, np.float32), FP32)
    require_equal(found, np.full(4, 3.0, np.float32), "the sum")
    return "ok"


def _false_entry() -> bytes:
    """What a rank 1 of 2 sends to the list of ranks (twin/runtime/hccl/directory.cpp), of another job."""
    texts = (b"another job", b"host", b"127.0.0.1")
    return struct.pack("<4Iq64s128s64s", 0x74776E31, 1, 2, 1, os.getpid(), *texts)


def _false_hello() -> bytes:
    """What a rank 1 of 2 sends to rank 0 (twin/runtime/hccl/rendezvous.cpp), of another job."""
    rest = struct.pack("<3I4xq64s", 2, 1, 2, os.getpid(), b"another job")
    return struct.pack("<IIQ", 0, 0, len(rest)) + rest


def _listening() -> set[int]:
    """Ports that this process listens at."""
    own = {os.readlink(d) for d in Path("/proc/self/fd").iterdir() if d.is_symlink()}
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own}


def failed_initialisation(job: Job) -> Any:
    """Threads of this process before the list of ranks is served, then, and once no communicator can be made."""
    found = [_threads()]
    info, handle = job.device.root_info(), ctypes.c_void_p()
    found.append(_threads())
    os.environ["HCCL_EXEC_TIMEOUT"] = "soon"
    try:
        job.device.hccl("HcclCommInitRootInfo", 2, info, 0, ctypes.byref(handle))
    except HcclError as error:
        assert "HCCL_EXEC_TIMEOUT=soon" in error.text
    end = time.monotonic() + 10
    while _threads() > found[0] and time.monotonic() < end:
        time.sleep(0.01)
    return [*found, _threads()]


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))
