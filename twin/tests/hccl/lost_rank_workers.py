"""Ranks that are late, stop or die, and the others, which must name them."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from failing import all_reduce, failing
from hccl_api import (
    FP32,
    SUM,
    UINT8,
    Buffer,
    Job,
)

u64 = ctypes.c_uint64


def late_rank(job: Job) -> Any:
    """The last rank joins but never makes the second call."""
    comm = job.communicator()
    comm.all_reduce(np.ones(4, np.float32), FP32)
    if job.rank == job.size - 1:
        for rank in range(job.size - 1):
            job.await_file(f"done{rank}")
        return None
    found = failing(comm, all_reduce(comm))
    again = failing(comm, all_reduce(comm))
    job.publish(f"done{job.rank}")
    return {**found, "again": again}


def absent_rank(job: Job) -> Any:
    """The last rank never makes the communicator."""
    if job.rank == job.size - 1:
        return None
    comm = job.communicator()
    return failing(comm, all_reduce(comm))


def stopped_rank(job: Job) -> Any:
    """Rank 1 stops in the middle of a long message."""
    comm = job.communicator()
    count = 50_000_000
    buffer = Buffer(job.device, np.zeros(count, np.uint8))
    if job.rank == 0:
        comm.all_reduce(np.ones(4, np.float32), FP32)
        job.publish("pid", str(os.getpid()).encode())
        return failing(comm, lambda: comm.call("HcclSend", buffer, u64(count), UINT8, 1))
    comm.all_reduce(np.ones(4, np.float32), FP32)
    time.sleep(6)
    return None


def killed_idle(job: Job) -> Any:
    """Rank 1 dies between calls while a child that it forked lives on; the child holds no socket of its parent."""
    comm = job.communicator()
    comm.all_reduce(np.ones(4, np.float32), FP32)
    if job.rank == 1:
        child = os.fork()
        if child == 0:
            time.sleep(20)
            os._exit(0)
        job.publish("child", str(child).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    found = failing(comm, all_reduce(comm))
    os.kill(int(job.await_file("child")), signal.SIGKILL)
    return found


def killed_before_first_call(job: Job) -> Any:
    """Rank 1 dies once it has joined; rank 0 was there before it."""
    if job.rank == 1:
        job.await_file("there")
    comm = job.communicator()
    if job.rank == 0:
        job.publish("there")
    else:
        job.publish("ready")
        os.kill(os.getpid(), signal.SIGKILL)
    job.await_file("ready")
    return failing(comm, all_reduce(comm))


def killed_in_meeting(job: Job) -> Any:
    """Rank 2 dies when it has met rank 0 but not yet rank 1, which learns it from rank 0 while it waits."""
    if job.rank == 1:
        job.await_file("killed")
    if job.rank == 2:
        job.await_file("there")
    comm = job.communicator()
    if job.rank == 0:
        job.publish("there")
    if job.rank == 2:
        job.publish("killed")
        os.kill(os.getpid(), signal.SIGKILL)
    found = failing(comm, all_reduce(comm))
    if job.rank == 0:  # it lives on, as a process that handles the error does
        job.await_file("heard")
    job.publish("heard")
    return found


def killed_in_call(job: Job) -> Any:
    """Rank 1 dies in the first of 50 all_reduces of 100 MB, far too many to end before it; all others hear of it."""
    comm = job.communicator()
    comm.all_reduce(np.ones(4, np.float32), FP32)
    call = all_reduce(comm, 25_000_000)

    def calls() -> None:
        for _ in range(50):
            call()

    if job.rank == 1:
        calls()
        time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
    return failing(comm, calls)


def calls_until_failure(job: Job) -> Any:
    """Collectives of all sizes without end, the same on every rank; ends when one fails because a rank was killed."""
    draw = np.random.default_rng(7)
    comm = job.communicator()
    most = Buffer(job.device, np.zeros(job.size << 18, np.float32))
    comm.all_reduce(np.ones(1, np.float32), FP32)  # every rank is linked with every other
    job.publish(f"running{job.rank}", str(os.getpid()).encode())

    def calls() -> None:
        while True:
            count = u64(int(2 ** draw.uniform(0, 18)))
            kind = draw.integers(4)
            if kind == 0:
                comm.call("HcclAllReduce", most, most, count, FP32, SUM)
            elif kind == 1:
                comm.call("HcclAllGather", most, most, count, FP32)
            elif kind == 2:
                comm.call("HcclBroadcast", most, count, FP32, int(draw.integers(job.size)))
            else:
                comm.call("HcclReduceScatter", most, most, count, FP32, SUM)
            comm.finish()

    return failing(comm, calls)


def shared_memory(job: Job) -> Any:
    """What this process has open or mapped below /dev/shm while a communicator with traffic lives; then it dies."""
    comm = job.communicator()
    comm.all_reduce(np.ones(1_000_000, np.float32), FP32)
    held = [line for line in Path("/proc/self/maps").read_text().splitlines() if "/dev/shm" in line]
    for descriptor in Path("/proc/self/fd").iterdir():
        target = os.readlink(descriptor) if descriptor.is_symlink() else ""
        held += [target] if target.startswith("/dev/shm") else []
    sockets = Path("/proc/self/net/unix").read_text()
    job.publish(f"held{job.rank}", json.dumps([held, sockets]).encode())
    comm.call("HcclAllReduce", *[Buffer(job.device, np.zeros(10_000_000, np.float32))] * 2, u64(10_000_000), FP32, SUM)
    os.kill(os.getpid(), signal.SIGKILL)
    return None


def peer_destroyed(job: Job) -> Any:
    comm = job.communicator()
    comm.all_reduce(np.ones(4, np.float32), FP32)
    if job.rank == 1:
        comm.destroy()
        job.publish("destroyed")
        job.await_file("done0")
        return None
    job.await_file("destroyed")
    found = failing(comm, all_reduce(comm))
    job.publish("done0")
    return found
