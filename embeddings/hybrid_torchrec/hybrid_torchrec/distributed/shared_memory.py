"""All-to-all exchanges between processes of one host, through memory that they share.

gloo copies through sockets of the loopback device and has threads for it, which take the cores that train. Here a rank
copies what it sends into a block of shared memory and tells the others where it lies; they copy it out, and tell that
the block is free. No thread takes part.

A block is an anonymous file (memfd), whose descriptor goes over a socket once; nothing is left behind by a process that
is killed. The sockets are in the abstract namespace, so whoever can connect is on the same kernel; who connects must
know a secret that went over the process group.
"""

from __future__ import annotations

import mmap
import os
import secrets
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakKeyDictionary, finalize

import torch
import torch.distributed as dist
from torch import Tensor

MESSAGE = struct.Struct("=qqqq")  # kind, and three numbers
BLOCK, SENT, READ = range(3)  # (id, bytes) with a descriptor; (exchange, block, offset); (block)
SMALLEST = 1 << 16  # bytes of a block; a power of two
SECRET_BYTES = 16


class Work(Protocol):
    """What dist.all_to_all_single gives."""

    def wait(self) -> object: ...


@dataclass
class _Block:
    """Memory of this rank that others read."""

    number: int
    memory: Tensor  # (B,) uint8
    readers: int = 0  # who have not read yet


@dataclass
class _Peer:
    """A rank that is reached by a socket."""

    rank: int
    socket: socket.socket
    memory: dict[int, Tensor] = field(default_factory=dict)  # its blocks, (B,) uint8
    sent: dict[int, tuple[int, int]] = field(default_factory=dict)  # exchange: block and offset of what it sent


class SharedMemory:
    """All-to-all exchanges of a group whose ranks can all map each other's memory; see `of`."""

    def __init__(self, rank: int, ranks: int, sockets: dict[int, socket.socket]) -> None:
        self._rank = rank
        self._ranks = ranks
        self._peers = {other: _Peer(other, one) for other, one in sockets.items()}
        self._blocks: list[_Block] = []
        self._started = 0
        self._lock = threading.Lock()
        finalize(self, _close, list(sockets.values()))

    @staticmethod
    def of(group: dist.ProcessGroup) -> SharedMemory | None:
        """Of a gloo group whose ranks are all on this host, else None. The first call is one of all ranks."""
        if group not in _made:
            _made[group] = _make(group)
        return _made[group]

    def all_to_all(self, received: Tensor, sent: Tensor, out_splits: Sequence[int], in_splits: Sequence[int]) -> Work:
        """dist.all_to_all_single of contiguous CPU tensors; `sent` may be changed when it returns."""
        taken, given = _byte_parts(received, out_splits), _byte_parts(sent, in_splits)
        taken[self._rank].copy_(given[self._rank])
        with self._lock:
            number = self._started
            self._started += 1
            to = [peer for peer in self._peers.values() if len(given[peer.rank])]
            block = self._block(sum(len(given[peer.rank]) for peer in to)) if to else None
            offset = 0
            for peer in to:
                assert block is not None
                end = offset + len(given[peer.rank])
                block.memory[offset:end].copy_(given[peer.rank])
                block.readers += 1
                self._tell(peer, SENT, number, block.number, offset)
                offset = end
        awaited = {rank: taken[rank] for rank in self._peers if len(taken[rank])}
        return _Flying(self, number, awaited)

    def receive(self, number: int, parts: dict[int, Tensor]) -> None:
        """What each rank sent to this one in exchange `number` to the parts, (bytes,) uint8."""
        with self._lock:
            for rank, part in parts.items():
                peer = self._peers[rank]
                while number not in peer.sent:
                    self._hear(peer)
                block, offset = peer.sent.pop(number)
                part.copy_(peer.memory[block][offset : offset + len(part)])
                with suppress(ConnectionError):  # a rank that has ended needs no block
                    peer.socket.send(MESSAGE.pack(READ, block, 0, 0))

    # With the lock held.

    def _block(self, size: int) -> _Block:
        """A free block of at least `size` bytes."""
        block = self._free_block(size)
        if block is None:
            for peer in self._peers.values():
                self._hear_what_is_there(peer)
            block = self._free_block(size)
        return self._new_block(size) if block is None else block

    def _free_block(self, size: int) -> _Block | None:
        free = [block for block in self._blocks if not block.readers and len(block.memory) >= size]
        return min(free, key=lambda block: len(block.memory), default=None)

    def _new_block(self, size: int) -> _Block:
        size = max(SMALLEST, 1 << (size - 1).bit_length())
        descriptor = os.memfd_create("hybrid_torchrec")
        try:
            os.ftruncate(descriptor, size)
            block = _Block(len(self._blocks), _mapped(descriptor, size))
            for peer in self._peers.values():
                self._tell(peer, BLOCK, block.number, size, 0, descriptor)
        finally:
            os.close(descriptor)
        self._blocks.append(block)
        return block

    def _tell(self, peer: _Peer, kind: int, a: int, b: int, c: int, *descriptors: int) -> None:
        try:
            socket.send_fds(peer.socket, [MESSAGE.pack(kind, a, b, c)], list(descriptors))
        except ConnectionError as error:
            raise self._lost(peer) from error

    def _hear_what_is_there(self, peer: _Peer) -> None:
        timeout = peer.socket.gettimeout()
        peer.socket.settimeout(0.0)
        try:
            while True:
                self._hear(peer)
        except BlockingIOError:
            pass
        finally:
            peer.socket.settimeout(timeout)

    def _hear(self, peer: _Peer) -> None:
        """Takes one message of the rank."""
        try:
            message, descriptors = _next_message(peer.socket)
        except TimeoutError as error:
            raise RuntimeError(
                f"rank {self._rank}: nothing came from rank {peer.rank} in {peer.socket.gettimeout():g} s; see whether "
                "it waits for something else, or raise the timeout of init_process_group"
            ) from error
        except ConnectionError as error:
            raise self._lost(peer) from error
        if not message:
            raise self._lost(peer)
        kind, a, b, c = MESSAGE.unpack(message)
        if kind == BLOCK:
            peer.memory[a] = _mapped(descriptors[0], b)
            os.close(descriptors[0])
        elif kind == SENT:
            peer.sent[a] = (b, c)
        else:
            self._blocks[a].readers -= 1

    def _lost(self, peer: _Peer) -> RuntimeError:
        return RuntimeError(f"rank {self._rank}: rank {peer.rank} has ended: connection closed by peer")


@dataclass
class _Flying:
    memory: SharedMemory
    number: int
    parts: dict[int, Tensor]

    def wait(self) -> None:
        self.memory.receive(self.number, self.parts)


_made: WeakKeyDictionary[dist.ProcessGroup, SharedMemory | None] = WeakKeyDictionary()


def _make(group: dist.ProcessGroup) -> SharedMemory | None:
    if sys.platform != "linux" or group.size() == 1 or "cpu:gloo" not in dist.get_backend_config(group):
        return None
    rank, ranks = group.rank(), group.size()
    secret = secrets.token_bytes(SECRET_BYTES)
    sockets: dict[int, socket.socket] = {}
    with _new_socket() as listener:
        name = b"\0hybrid_torchrec-" + secrets.token_hex(SECRET_BYTES).encode()
        reached = True
        try:
            os.close(os.memfd_create("hybrid_torchrec"))
            listener.bind(name)
            listener.listen(ranks)
        except OSError:  # a sandbox may refuse it
            reached = False
        addresses: list[tuple[bytes, bytes]] = [(b"", b"")] * ranks
        dist.all_gather_object(addresses, (name, secret), group=group)
        try:
            for other in range(rank if reached else 0):
                sockets[other] = _connected(*addresses[other], rank)
        except OSError:  # on another host, or in another network of this one
            reached = False
        all_reached = [False] * ranks
        dist.all_gather_object(all_reached, reached, group=group)
        if not all(all_reached):
            _close(list(sockets.values()))
            return None
        while len(sockets) < ranks - 1:  # those of the higher ranks are there
            one, _ = listener.accept()
            hello = one.recv(SECRET_BYTES + 8)
            if hello[:SECRET_BYTES] != secret:
                one.close()
                continue
            sockets[int.from_bytes(hello[SECRET_BYTES:], "little")] = one
    for one in sockets.values():
        one.settimeout(group._get_backend(torch.device("cpu")).options._timeout.total_seconds())
    return SharedMemory(rank, ranks, dict(sorted(sockets.items())))


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _connected(name: bytes, secret: bytes, rank: int) -> socket.socket:
    one = _new_socket()
    try:
        one.connect(name)
        one.send(secret + rank.to_bytes(8, "little"))
    except OSError:
        one.close()
        raise
    return one


def _next_message(one: socket.socket) -> tuple[bytes, list[int]]:
    """A message and its descriptors; an empty one if the other side has ended."""
    try:
        message, descriptors, _, _ = socket.recv_fds(one, MESSAGE.size, 1)
    except ConnectionResetError:  # it ended with messages unread; those that it had sent are still here
        message, descriptors, _, _ = socket.recv_fds(one, MESSAGE.size, 1)
    return message, descriptors


def _mapped(descriptor: int, size: int) -> Tensor:
    return torch.frombuffer(mmap.mmap(descriptor, size), dtype=torch.uint8)


def _byte_parts(tensor: Tensor, splits: Sequence[int]) -> tuple[Tensor, ...]:
    """The parts along dim 0 of a contiguous tensor, as (bytes,) uint8."""
    width = tensor[0].nbytes if len(tensor) else 0
    return tensor.detach().flatten().view(torch.uint8).split([count * width for count in splits])


def _close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()
