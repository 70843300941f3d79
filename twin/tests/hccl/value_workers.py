"""What each rank of the tests of values does. Values are computed by numpy."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np
from hccl_api import (
    BFP16,
    FP16,
    FP32,
    FP64,
    INT16,
    INT32,
    INT64,
    MAX,
    MIN,
    NUMPY_TYPE,
    PROD,
    SUM,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Buffer,
    Communicator,
    HcclError,
    Job,
    SendRecvItem,
    counts,
    offsets,
)
from samples import reference, require_equal, sample

u64 = ctypes.c_uint64
# By the public documentation of HcclAllReduce for Atlas A2 and A3.
NOT_REDUCED = (UINT8, UINT16, UINT32, UINT64, FP64)
NO_PRODUCT = ((INT16, PROD), (BFP16, PROD))


def reductions(job: Job) -> Any:
    """What an Atlas A2 reduces; 5 elements leave ranks with unequal parts, 1 leaves some with none."""
    comm = job.communicator()
    with np.errstate(over="ignore"):
        for data_type in NUMPY_TYPE:
            for op in (SUM, PROD, MAX, MIN):
                if data_type in NOT_REDUCED or (data_type, op) in NO_PRODUCT:
                    continue
                for count in (0, 1, 5, 3000):
                    parts = [sample(rank, data_type, count) for rank in range(job.size)]
                    found = comm.all_reduce(parts[job.rank], data_type, op)
                    require_equal(found, reference(op, data_type, parts), f"type {data_type}, op {op}, {count}")
    comm.destroy()
    return "ok"


def no_such_reductions(job: Job) -> Any:
    """What an Atlas A2 does not reduce, by each call that reduces: [call, data type, reduction, code, text]."""
    comm = job.communicator()
    found = []
    for data_type, op in (*((kind, SUM) for kind in NOT_REDUCED), *NO_PRODUCT):
        source, result = (Buffer(job.device, np.ones(4, NUMPY_TYPE[data_type])) for _ in range(2))
        one, parts = u64(4 // job.size), [4 // job.size] * job.size
        for call, arguments in (
            ("HcclAllReduce", (source, result, u64(4), data_type, op)),
            ("HcclReduce", (source, result, u64(4), data_type, op, 0)),
            ("HcclReduceScatter", (source, result, one, data_type, op)),
            ("HcclReduceScatterV", (source, counts(parts), counts(offsets(parts)), result, one, data_type, op)),
        ):
            try:
                comm.call(call, *arguments)
                found.append([call, data_type, op, 0, ""])
            except HcclError as error:
                found.append([call, data_type, op, error.code, error.text])
    ones = np.ones(4, np.float32)
    require_equal(comm.all_reduce(ones, FP32), ones * job.size, "the communicator afterwards")
    comm.destroy()
    return found


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
