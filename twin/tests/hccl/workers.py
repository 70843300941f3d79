"""What each rank of the tests in test_api.py and test_failures.py does. Values are computed by numpy."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from hccl_api import (
    BFP16,
    FP16,
    FP32,
    INT32,
    INT64,
    MAX,
    MIN,
    NUMPY_TYPE,
    PROD,
    ROOT_INFO_BYTES,
    SUM,
    UINT8,
    Array,
    Buffer,
    Communicator,
    HcclError,
    Job,
    SendRecvItem,
    counts,
    offsets,
)

u64 = ctypes.c_uint64


def bf16_from_float(values: Array) -> Array:
    """Round to nearest even by choosing the nearer of the two neighbours in float64."""
    exact = np.asarray(values, np.float32)
    low = (exact.view(np.uint32) >> 16).astype(np.uint32)
    below, above = (low << 16).view(np.float32), ((low + 1) << 16).view(np.float32)
    to_below = np.abs(exact.astype(np.float64) - below)
    to_above = np.abs(above.astype(np.float64) - exact)
    up = (to_above < to_below) | ((to_above == to_below) & (low % 2 == 1))
    return np.where(up, low + 1, low).astype(np.uint16)


def bf16_to_float(bits: Array) -> Array:
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def sample(rank: int, data_type: int, count: int) -> Array:
    random = np.random.default_rng([rank, data_type, count])
    kind = NUMPY_TYPE[data_type]
    if data_type == BFP16:
        return bf16_from_float(random.normal(size=count).astype(np.float32))
    if np.issubdtype(kind, np.floating):
        return random.normal(size=count).astype(kind)
    return random.integers(np.iinfo(kind).min, np.iinfo(kind).max, size=count, dtype=kind, endpoint=True)


def reference(op: int, data_type: int, parts: list[Array]) -> Array:
    """In rank order; 16-bit floats accumulate in float32 and round once."""
    combine = {SUM: np.add, PROD: np.multiply, MAX: np.maximum, MIN: np.minimum}[op]
    if data_type == FP16:
        return reduce(combine, [p.astype(np.float32) for p in parts]).astype(np.float16)
    if data_type == BFP16:
        return bf16_from_float(reduce(combine, [bf16_to_float(p) for p in parts]))
    return reduce(combine, parts)


def require_equal(found: Array, expected: Array, what: str) -> None:
    assert found.tobytes() == np.asarray(expected, found.dtype).tobytes(), (
        f"{what}: {found.ravel()[:8]} is not {np.ravel(expected)[:8]}"
    )


def reductions(job: Job) -> Any:
    """Every data type and reduction; 5 elements leave ranks with unequal parts, 1 leaves some with none."""
    comm = job.communicator()
    with np.errstate(over="ignore"):
        for data_type in NUMPY_TYPE:
            for op in (SUM, PROD, MAX, MIN):
                for count in (0, 1, 5, 3000):
                    parts = [sample(rank, data_type, count) for rank in range(job.size)]
                    found = comm.all_reduce(parts[job.rank], data_type, op)
                    require_equal(found, reference(op, data_type, parts), f"type {data_type}, op {op}, {count}")
    comm.destroy()
    return "ok"


def large_reductions(job: Job) -> Any:
    """More than one block of 1 MiB per rank, with a rest; in place and not."""
    comm = job.communicator()
    count = 262144 * job.size * 2 + 12345
    parts = [sample(rank, FP32, count) for rank in range(job.size)]
    require_equal(comm.all_reduce(parts[job.rank], FP32), reference(SUM, FP32, parts), "all_reduce")
    buffer = Buffer(job.device, parts[job.rank])
    comm.call("HcclAllReduce", buffer, buffer, u64(count), FP32, SUM)
    comm.finish()
    require_equal(buffer.read(), reference(SUM, FP32, parts), "all_reduce in place")
    root = job.size - 1
    source, result = Buffer(job.device, parts[job.rank]), Buffer(job.device, np.zeros_like(parts[0]))
    comm.call("HcclReduce", source, result, u64(count), FP32, SUM, root)
    comm.finish()
    expected = reference(SUM, FP32, parts) if job.rank == root else np.zeros_like(parts[0])
    require_equal(result.read(), expected, "reduce")
    share = count // job.size
    result = Buffer(job.device, np.zeros(share, np.float32))
    comm.call("HcclReduceScatter", source, result, u64(share), FP32, SUM)
    comm.finish()
    require_equal(
        result.read(), reference(SUM, FP32, parts)[job.rank * share : (job.rank + 1) * share], "reduce_scatter"
    )
    sizes = [300000 * (rank % 3) + rank for rank in range(job.size)]
    source = Buffer(job.device, parts[job.rank])
    starts = offsets(sizes)
    sizes = [min(size, count - start) for size, start in zip(sizes, starts, strict=True)]
    comm.call("HcclReduceScatterV", source, counts(sizes), counts(starts), source, u64(sizes[job.rank]), FP32, SUM)
    comm.finish()
    start = starts[job.rank]
    mine = reference(SUM, FP32, parts)[start : start + sizes[job.rank]]
    require_equal(source.read()[: sizes[job.rank]], mine, "reduce_scatter_v in place")
    comm.destroy()
    return "ok"


def half_conversion(job: Job) -> Any:
    """All 65536 halves come through a sum with zero; products of two round as numpy's do."""
    comm = job.communicator()
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    other = np.full(65536, -0.0, np.float16)
    found = comm.all_reduce(every if job.rank == 0 else other, FP16)
    numbers = ~np.isnan(every)
    require_equal(found[numbers], every[numbers], "fp16 sum with -0")
    assert np.isnan(found[~numbers]).all()
    shuffled = np.random.default_rng(7).permutation(every)
    found = comm.all_reduce(every if job.rank == 0 else shuffled, FP16, PROD)
    with np.errstate(all="ignore"):
        expected = (every.astype(np.float32) * shuffled.astype(np.float32)).astype(np.float16)
    numbers = ~np.isnan(expected)
    require_equal(found[numbers], expected[numbers], "fp16 product")
    assert np.isnan(found[~numbers]).all()
    comm.destroy()
    return "ok"


def movement(job: Job) -> Any:
    """Every call that only moves data; 700000 int32 is more than one frame and more than a socket holds."""
    comm = job.communicator()
    device, rank, size = job.device, job.rank, job.size
    for count in (1, 700000):
        parts = [sample(r, INT32, count) for r in range(size)]
        gathered = np.concatenate(parts)

        result = Buffer(device, np.zeros(count * size, np.int32))
        comm.call("HcclAllGather", Buffer(device, parts[rank]), result, u64(count), INT32)
        comm.finish()
        require_equal(result.read(), gathered, "all_gather")

        start = np.zeros(count * size, np.int32)
        start[:count] = parts[rank]
        result = Buffer(device, start)
        comm.call("HcclAllGather", result, result, u64(count), INT32)
        comm.finish()
        require_equal(result.read(), gathered, "all_gather from the front of its own result")

        for root in range(size):
            buffer = Buffer(device, parts[rank])
            comm.call("HcclBroadcast", buffer, u64(count), INT32, root)
            comm.finish()
            require_equal(buffer.read(), parts[root], f"broadcast from {root}")

            result = Buffer(device, np.zeros(count, np.int32))
            comm.call("HcclScatter", Buffer(device, gathered), result, u64(count), INT32, root)
            comm.finish()
            require_equal(result.read(), parts[rank], f"scatter from {root}")

        blocks = [sample(100 + r, INT32, count * size) for r in range(size)]
        expected = np.concatenate([b[rank * count : (rank + 1) * count] for b in blocks])
        buffer = Buffer(device, blocks[rank])
        result = Buffer(device, np.zeros(count * size, np.int32))
        comm.call("HcclAlltoAll", buffer, u64(count), INT32, result, u64(count), INT32)
        comm.call("HcclAlltoAll", buffer, u64(count), INT32, buffer, u64(count), INT32)
        comm.finish()
        require_equal(result.read(), expected, "all_to_all")
        require_equal(buffer.read(), expected, "all_to_all in place")

        # Rank r gives rank p `count // (1 + r + p)` elements less r, none where that is negative, with a gap of 3.
        table = [[max(0, count // (1 + r + p) - r) for p in range(size)] for r in range(size)]
        sent, received = table[rank], [table[r][rank] for r in range(size)]
        gaps = [o + 3 * i for i, o in enumerate(offsets(sent))]
        source = [sample(200 + r, INT32, sum(table[r]) + 3 * size) for r in range(size)]
        pieces = []
        for r in range(size):
            begin = offsets(table[r])[rank] + 3 * rank
            pieces.append(source[r][begin : begin + table[r][rank]])
        result = Buffer(device, np.zeros(sum(received) + 1, np.int32))
        comm.call(
            "HcclAlltoAllV",
            *(Buffer(device, source[rank]), counts(sent), counts(gaps), INT32),
            *(result, counts(received), counts(offsets(received)), INT32),
        )
        comm.finish()
        require_equal(result.read()[:-1], np.concatenate(pieces), "all_to_all_v")
        assert result.read()[-1] == 0

        sizes = [count // (r + 1) for r in range(size)]
        result = Buffer(device, np.zeros(sum(sizes), np.int32))
        comm.call(
            "HcclAllGatherV",
            *(Buffer(device, parts[rank]), u64(sizes[rank]), result, counts(sizes), counts(offsets(sizes)), INT32),
        )
        comm.finish()
        require_equal(result.read(), np.concatenate([p[:s] for p, s in zip(parts, sizes, strict=True)]), "gather_v")
    comm.destroy()
    return "ok"


def point_to_point(job: Job) -> Any:
    """A ring of single sends, then a batch in which every rank sends before it receives, itself included."""
    comm = job.communicator()
    device, rank, size = job.device, job.rank, job.size
    count = 900000
    ahead, behind = (rank + 1) % size, (rank - 1) % size
    mine, theirs = Buffer(device, sample(rank, FP32, count)), Buffer(device, np.zeros(count, np.float32))
    for turn in range(2):  # even ranks send first
        send = rank % 2 == turn
        if send:
            comm.call("HcclSend", mine, u64(count), FP32, ahead)
        else:
            comm.call("HcclRecv", theirs, u64(count), FP32, behind)
    comm.finish()
    require_equal(theirs.read(), sample(behind, FP32, count), "ring")

    results = {peer: [Buffer(device, np.zeros(count, np.float32)) for _ in range(2)] for peer in range(size)}
    sources = {
        peer: [Buffer(device, sample(1000 * rank + 10 * peer + k, FP32, count)) for k in range(2)]
        for peer in range(size)
    }
    items = [(0, sources[peer][k], peer) for k in range(2) for peer in range(size)]
    items += [(1, results[peer][k], peer) for k in range(2) for peer in range(size)]
    array = (SendRecvItem * len(items))(*[SendRecvItem(k, b.address, count, FP32, p) for k, b, p in items])
    comm.call("HcclBatchSendRecv", array, len(items))
    ctypes.memset(array, 0xFF, ctypes.sizeof(array))  # the call has its own copy
    comm.finish()
    for peer in range(size):
        for k in range(2):
            require_equal(results[peer][k].read(), sample(1000 * peer + 10 * rank + k, FP32, count), "batch")
    comm.destroy()
    return "ok"


def independent_communicators(job: Job) -> Any:
    """Rank 1 enters `slow` only after `quick` is through on both: the wait in one must not hold up the other."""
    slow, quick = job.communicator("slow"), job.communicator("quick")
    values = np.ones(4, np.float32)
    result = Buffer(job.device, values)
    if job.rank == 0:
        slow.call("HcclAllReduce", result, result, u64(4), FP32, SUM)
    for _ in range(3):
        require_equal(quick.all_reduce(values, FP32), values * job.size, "quick")
    if job.rank == 1:
        slow.call("HcclAllReduce", result, result, u64(4), FP32, SUM)
    slow.finish()
    require_equal(result.read(), values * job.size, "slow")
    return [slow.name(), quick.name()]


def names(job: Job) -> Any:
    named, plain = job.communicator("a", config_name="group_name_7"), job.communicator("b")
    ones = np.ones(1, np.float32)
    require_equal(named.all_reduce(ones, FP32), ones * job.size, "named")
    require_equal(plain.all_reduce(ones, FP32), ones * job.size, "plain")
    return [named.name(), plain.name(), job.device.capability(), named.async_error()]


def one_process(job: Job) -> Any:
    """HcclCommInitAll: both ranks in this process, each on a stream of its own."""
    handles, devices = (ctypes.c_void_p * 2)(), (ctypes.c_int32 * 2)(0, 1)
    job.device.hccl("HcclCommInitAll", 2, devices, handles)
    comms = [Communicator(job.device, ctypes.c_void_p(handle), rank, 2) for rank, handle in enumerate(handles)]
    values = [sample(rank, INT64, 1000) for rank in range(2)]
    buffers = [Buffer(job.device, v) for v in values]
    for comm, buffer in zip(comms, buffers, strict=True):
        comm.call("HcclAllReduce", buffer, buffer, u64(1000), INT64, SUM)
    for comm, buffer in zip(comms, buffers, strict=True):
        comm.finish()
        require_equal(buffer.read(), values[0] + values[1], "all_reduce")
        comm.destroy()
    return "ok"


def sent_before_exit(job: Job) -> Any:
    """Rank 0 destroys its communicator and ends before rank 1 looks for the message."""
    comm = job.communicator()
    values = sample(0, UINT8, 1000)
    if job.rank == 0:
        comm.call("HcclSend", Buffer(job.device, values), u64(1000), UINT8, 1)
        comm.finish()
        comm.destroy()
        job.publish("gone")
        return "ok"
    job.await_file("gone")
    time.sleep(0.5)
    result = Buffer(job.device, np.zeros(1000, np.uint8))
    comm.call("HcclRecv", result, u64(1000), UINT8, 0)
    comm.finish()
    require_equal(result.read(), values, "recv")
    return "ok"


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


def _failing(job: Job, comm: Communicator, call: Callable[[], None]) -> Any:
    """Text, async error and seconds of a call that must fail."""
    start = time.monotonic()
    try:
        call()
        comm.finish()
    except HcclError as error:
        return {"text": error.text, "code": comm.async_error(), "seconds": time.monotonic() - start}
    return {"text": "", "code": 0, "seconds": time.monotonic() - start}


def _all_reduce(comm: Communicator, count: int = 4, data_type: int = FP32, op: int = SUM) -> Callable[[], None]:
    buffer = Buffer(comm.device, np.zeros(count, NUMPY_TYPE[data_type]))
    return lambda: comm.call("HcclAllReduce", buffer, buffer, u64(count), data_type, op)


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


def late_rank(job: Job) -> Any:
    """The last rank joins but never makes the second call."""
    comm = job.communicator()
    comm.all_reduce(np.ones(4, np.float32), FP32)
    if job.rank == job.size - 1:
        for rank in range(job.size - 1):
            job.await_file(f"done{rank}")
        return None
    found = _failing(job, comm, _all_reduce(comm))
    again = _failing(job, comm, _all_reduce(comm))
    job.publish(f"done{job.rank}")
    return {**found, "again": again}


def absent_rank(job: Job) -> Any:
    """The last rank never makes the communicator."""
    if job.rank == job.size - 1:
        return None
    comm = job.communicator()
    return _failing(job, comm, _all_reduce(comm))


def stopped_rank(job: Job) -> Any:
    """Rank 1 stops in the middle of a long message."""
    comm = job.communicator()
    count = 50_000_000
    buffer = Buffer(job.device, np.zeros(count, np.uint8))
    if job.rank == 0:
        comm.all_reduce(np.ones(4, np.float32), FP32)
        job.publish("pid", str(os.getpid()).encode())
        return _failing(job, comm, lambda: comm.call("HcclSend", buffer, u64(count), UINT8, 1))
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
    found = _failing(job, comm, _all_reduce(comm))
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
    return _failing(job, comm, _all_reduce(comm))


def killed_in_call(job: Job) -> Any:
    """Rank 1 dies in the first of 50 all_reduces of 100 MB, far too many to end before it; all others hear of it."""
    comm = job.communicator()
    comm.all_reduce(np.ones(4, np.float32), FP32)
    call = _all_reduce(comm, 25_000_000)

    def calls() -> None:
        for _ in range(50):
            call()

    if job.rank == 1:
        calls()
        time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
    return _failing(job, comm, calls)


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

    return _failing(job, comm, calls)


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
        found[kind] = _failing(job, comm, lambda c=comm, f=function, a=filled: c.call(f, *a))  # type: ignore[misc]
    return found


def skipped_call(job: Job) -> Any:
    """Rank 1 leaves out one of two broadcasts of the same shape and goes on to an all_reduce."""
    comm = job.communicator()
    buffer = Buffer(job.device, np.zeros(4, np.float32))
    for _ in range(2 if job.rank == 0 else 1):
        comm.call("HcclBroadcast", buffer, u64(4), FP32, 0)
    return _failing(job, comm, _all_reduce(comm))


def wrong_size(job: Job) -> Any:
    comm = job.communicator(ranks=2 if job.rank == 0 else 3)
    return _failing(job, comm, _all_reduce(comm))


def peer_destroyed(job: Job) -> Any:
    comm = job.communicator()
    comm.all_reduce(np.ones(4, np.float32), FP32)
    if job.rank == 1:
        comm.destroy()
        job.publish("destroyed")
        job.await_file("done0")
        return None
    job.await_file("destroyed")
    found = _failing(job, comm, _all_reduce(comm))
    job.publish("done0")
    return found


def main() -> None:
    worker, rank, size, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    found = globals()[worker](Job(rank, size, folder))
    (folder / f"result{rank}.json").write_text(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # failed streams are left as they are


if __name__ == "__main__":
    main()
