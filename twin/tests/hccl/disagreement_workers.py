"""Ranks that make different calls, and calls that are refused."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from failing import all_reduce, failing
from hccl_api import (
    FP32,
    INT32,
    MAX,
    ROOT_INFO_BYTES,
    SUM,
    Buffer,
    HcclError,
    Job,
    counts,
)

u64 = ctypes.c_uint64


def refused(job: Job) -> Any:
    """Arguments that hardware would fault on or that cannot be meant; [function, code, text] of each."""
    comm = job.communicator()
    buffer = Buffer(job.device, np.zeros(8, np.float32))
    host = np.zeros(8, np.float32)
    handle = ctypes.c_void_p()
    foreign = ctypes.create_string_buffer(b"no card", ROOT_INFO_BYTES)
    elsewhere = ctypes.create_string_buffer(bytes(job.device.root_info()).replace(b"net:[", b"net:<"), ROOT_INFO_BYTES)
    one, zero = counts([1]), counts([0])
    attempts: list[tuple[Any, ...]] = [
        ("HcclAllReduce", ctypes.c_void_p(host.ctypes.data), buffer, u64(8), FP32, SUM, comm.handle, comm.stream),
        ("HcclAllReduce", buffer, buffer, u64(1 << 40), FP32, SUM, comm.handle, comm.stream),
        ("HcclAllReduce", buffer, None, u64(8), FP32, SUM, comm.handle, comm.stream),
        ("HcclAllReduce", buffer, buffer, u64(8), 12, SUM, comm.handle, comm.stream),
        ("HcclAllReduce", buffer, buffer, u64(8), FP32, 4, comm.handle, comm.stream),
        ("HcclAllReduce", buffer, buffer, u64(8), FP32, SUM, ctypes.c_void_p(4096), comm.stream),
        ("HcclAllReduce", buffer, buffer, u64(8), FP32, SUM, None, comm.stream),
        ("HcclBroadcast", buffer, u64(8), FP32, 1, comm.handle, comm.stream),
        ("HcclSend", buffer, u64(8), FP32, 0, comm.handle, comm.stream),
        ("HcclAllGatherV", buffer, u64(2), buffer, one, zero, FP32, comm.handle, comm.stream),
        ("HcclCommInitRootInfo", 2, foreign, 1, ctypes.byref(handle)),
        ("HcclCommInitRootInfo", 2, elsewhere, 1, ctypes.byref(handle)),
        ("HcclCommInitRootInfo", 2, job.device.root_info(), 2, ctypes.byref(handle)),
        ("HcclSetConfig", 0, 7),
    ]
    found = []
    for function, *arguments in attempts:
        try:
            job.device.hccl(function, *arguments)
            found.append([function, 0, ""])
        except HcclError as error:
            found.append([function, error.code, error.text])
    return found


MISMATCHES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "operation": (("HcclAllReduce", "B", "B", u64(4), FP32, SUM), ("HcclAllGather", "B", "B", u64(4), FP32)),
    "count": (("HcclAllReduce", "B", "B", u64(4), FP32, SUM), ("HcclAllReduce", "B", "B", u64(5), FP32, SUM)),
    "data_type": (("HcclAllReduce", "B", "B", u64(4), FP32, SUM), ("HcclAllReduce", "B", "B", u64(4), INT32, SUM)),
    "reduction": (("HcclAllReduce", "B", "B", u64(4), FP32, SUM), ("HcclAllReduce", "B", "B", u64(4), FP32, MAX)),
    "root": (("HcclBroadcast", "B", u64(4), FP32, 0), ("HcclBroadcast", "B", u64(4), FP32, 1)),
    "send_count": (("HcclSend", "B", u64(4), FP32, 1), ("HcclRecv", "B", u64(5), FP32, 0)),
    "send_for_collective": (("HcclSend", "B", u64(4), FP32, 1), ("HcclBroadcast", "B", u64(4), FP32, 0)),
    "splits": (
        ("HcclAlltoAllV", "B", counts([1, 2]), counts([0, 1]), FP32, "B", counts([1, 4]), counts([0, 1]), FP32),
        ("HcclAlltoAllV", "B", counts([3, 1]), counts([0, 3]), FP32, "B", counts([2, 1]), counts([0, 2]), FP32),
    ),
    "large_operation": (
        ("HcclAllGather", "B", "B", u64(2_000_000), FP32),
        ("HcclBroadcast", "B", u64(2_000_000), FP32, 0),
    ),
}


def mismatch(job: Job) -> Any:
    """Both ranks make different calls; [text, code, seconds] by kind, each in a communicator of its own."""
    found = {}
    for kind, calls in MISMATCHES.items():
        comm = job.communicator(kind)
        comm.all_reduce(np.ones(4, np.float32), FP32)
        buffers = [Buffer(job.device, np.zeros(4_000_000, np.float32)) for _ in range(2)]
        function, *arguments = calls[job.rank]
        spare = iter(buffers)
        filled = [next(spare) if a == "B" else a for a in arguments]
        found[kind] = failing(comm, lambda c=comm, f=function, a=filled: c.call(f, *a))  # type: ignore[misc]
    return found


def skipped_call(job: Job) -> Any:
    """Rank 1 leaves out one of two broadcasts of the same shape and goes on to an all_reduce."""
    comm = job.communicator()
    buffer = Buffer(job.device, np.zeros(4, np.float32))
    for _ in range(2 if job.rank == 0 else 1):
        comm.call("HcclBroadcast", buffer, u64(4), FP32, 0)
    return failing(comm, all_reduce(comm))


def wrong_size(job: Job) -> Any:
    comm = job.communicator(ranks=2 if job.rank == 0 else 3)
    return failing(comm, all_reduce(comm))
