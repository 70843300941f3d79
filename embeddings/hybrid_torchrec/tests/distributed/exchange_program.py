"""One of the ranks of test_shared_memory.py; writes what each case saw to FOLDER/RANK.json."""

from __future__ import annotations

import json
import os
import random
import select
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist
from hybrid_torchrec.distributed import shared_memory
from hybrid_torchrec.distributed.exchange import AllToAll
from hybrid_torchrec.distributed.shared_memory import SharedMemory

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DTYPES = [torch.float32, torch.int64, torch.float16, torch.bfloat16, torch.uint8]


def tensors(number: int, most: int) -> tuple[torch.Tensor, list[int], list[int]]:
    """What this rank sends in an exchange, and the splits of both sides; some ranks send nothing."""
    chosen = random.Random(number)
    counts = [[chosen.choice([0, 1, chosen.randrange(most)]) for _ in range(RANKS)] for _ in range(RANKS)]
    shape = chosen.choice([(), (3,), (2, 5)])
    dtype = chosen.choice(DTYPES)
    generator = torch.Generator().manual_seed(number * RANKS + RANK)
    sent = torch.randint(0, 100, (sum(counts[RANK]), *shape), generator=generator).to(dtype)
    return sent, counts[RANK], [counts[other][RANK] for other in range(RANKS)]


def of_gloo(group: dist.ProcessGroup, sent: torch.Tensor, given: list[int], taken: list[int]) -> torch.Tensor:
    moved = sent.view(torch.float16) if sent.dtype == torch.bfloat16 else sent
    received = moved.new_empty(sum(taken), *sent.shape[1:])
    dist.all_to_all_single(received, moved, taken, given, group=group)
    return received.view(sent.dtype)


def agree(group: dist.ProcessGroup, exchanges: int, *, most: int = 50, at_once: int = 5) -> bool:
    """Whether AllToAll gives what gloo gives, with several under way, which are awaited in another order."""
    same = True
    for first in range(0, exchanges, at_once):
        given = [tensors(number, most) for number in range(first, first + at_once)]
        flying = [AllToAll(group, *one) for one in given]
        for sent, _, _ in given:
            sent.zero_()  # it has been copied, or nobody else has it
        order = random.Random(RANKS * first + RANK).sample(range(at_once), at_once)
        received = {k: flying[k].wait() for k in order}
        for k in range(at_once):
            same = same and torch.equal(received[k], of_gloo(dist.group.WORLD, *tensors(first + k, most)))
    return same


def as_gloo() -> object:
    group = dist.new_group()
    same = agree(group, 200)
    memory = SharedMemory.of(group)
    return [same, memory is not None and memory is SharedMemory.of(group)]


def blocks_are_used_again() -> object:
    """Blocks after many exchanges of which at most 5 are under way, and after a larger one."""
    group = dist.new_group()
    agree(group, 500)
    memory = SharedMemory.of(group)
    assert memory is not None
    few = len(memory._blocks)
    same = agree(group, 5, most=100_000)
    return [few, same, max(len(block.memory) for block in memory._blocks) > 1 << 16]


def no_memory_here() -> object:
    group = dist.new_group()
    refused = mock.patch.object(os, "memfd_create", side_effect=OSError("refused"))
    with refused if RANK == 1 else mock.patch.object(os, "unused", create=True):
        found = SharedMemory.of(group)
    return [found is None, agree_by_gloo(group)]


def out_of_reach() -> object:
    group = dist.new_group()
    refused = mock.patch.object(shared_memory, "_connected", side_effect=ConnectionRefusedError("another host"))
    with refused if RANK == 2 else mock.patch.object(os, "unused", create=True):
        found = SharedMemory.of(group)
    return [found is None, agree_by_gloo(group)]


def agree_by_gloo(group: dist.ProcessGroup) -> bool:
    sent, given, taken = tensors(7, 50)
    received = AllToAll(group, sent, given, taken).wait()
    return bool(torch.equal(received, of_gloo(dist.group.WORLD, sent, given, taken)))


def a_stranger_comes() -> object:
    group = dist.new_group()
    connected = shared_memory._connected
    strangers = []

    def after_a_stranger(name: bytes, secret: bytes, rank: int) -> socket.socket:
        stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stranger.connect(name)
        stranger.send(bytes(16) + rank.to_bytes(8, "little"))
        strangers.append(stranger)
        return connected(name, secret, rank)

    with mock.patch.object(shared_memory, "_connected", after_a_stranger):
        same = agree(group, 20)
    return [same, [stranger.recv(100) == b"" for stranger in strangers]]


def nothing_comes() -> object:
    group = dist.new_group(timeout=timedelta(seconds=5))
    said = ""
    SharedMemory.of(group)
    if RANK == 0:
        try:
            AllToAll(group, torch.ones(RANKS), [1] * RANKS, [1] * RANKS).wait()
        except RuntimeError as error:
            said = str(error)
    dist.barrier()
    return said


def a_rank_ends() -> object:
    """What rank 2 sent before it ended, which others had not heard of, and what the next exchange says."""
    group = dist.new_group()

    def start() -> AllToAll:
        return AllToAll(group, torch.full((RANKS,), RANK), [1] * RANKS, [1] * RANKS)

    for flying in (start(), start()):
        flying.wait()
    dist.barrier()
    start().wait()
    told = [Path(sys.argv[1]) / f"told-{rank}" for rank in range(2)]
    if RANK == 2:
        while not all(file.exists() for file in told):
            time.sleep(0.01)
        start()  # a block is free, so that it hears nothing: it ends with messages unread
        return None
    flying = start()
    told[RANK].touch()
    memory = SharedMemory.of(group)
    assert memory is not None
    ended = select.poll()
    ended.register(memory._peers[2].socket, 0)  # hanging up is told in any case
    assert ended.poll(100_000)
    seen = flying.wait().tolist()
    try:
        start().wait()
    except RuntimeError as error:
        return [seen, str(error)]
    return [seen, ""]


CASES = [
    as_gloo,
    blocks_are_used_again,
    no_memory_here,
    out_of_reach,
    a_stranger_comes,
    nothing_comes,
    a_rank_ends,  # the last
]


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=RANK, world_size=RANKS)
    seen = {}
    for case in CASES:
        seen[case.__name__] = case()
        (folder / f"{RANK}.json").write_text(json.dumps(seen))
    os._exit(0)


if __name__ == "__main__":
    main()
