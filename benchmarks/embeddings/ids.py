"""Ids to slots: HashIndex beside torchrec's managed collision module and an ID transformer; one thread."""

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torchrec.modules.mc_modules import LFU_EvictionPolicy, MCHManagedCollisionModule
from torchrec.sparse.jagged_tensor import JaggedTensor

from .stream import Duel, PowerLaw

SOURCE = Path(__file__).resolve().parent / "id_transformer.cpp"
TRANSFORMER = "ID transformer (C++, flat hash map)"
COLLISIONS = "torchrec MCHManagedCollisionModule (eval)"
LINES = "the cache lines alone (no lookup)"
AHEAD = 24  # lines on their way
# How many new ids: a map's growth falls differently for each, and a size just past one is the worst.
NEW = (100_000, 1 << 17, 1 << 19, 1 << 20, 1_500_000, 2_000_000, 3_000_000, 8_000_000)


@functools.cache
def peers() -> ctypes.CDLL:
    """id_transformer.cpp, compiled."""
    with tempfile.TemporaryDirectory(prefix="grstack-benchmark-") as folder:
        library = Path(folder) / "transformer.so"
        command = ["g++", "-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", str(SOURCE), "-o", str(library)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library))


class Transformer:
    """The peer of id_transformer.cpp."""

    def __init__(self, slots: int) -> None:
        self._library = peers()
        self._library.transformer_new.restype = ctypes.c_void_p
        self._handle = ctypes.c_void_p(self._library.transformer_new(ctypes.c_int64(slots)))
        self._time = 0

    def __del__(self) -> None:
        self._library.transformer_delete(self._handle)

    def transform(self, ids: torch.Tensor) -> torch.Tensor:
        self._time += 1
        slots = torch.empty_like(ids)
        self._library.transformer_transform(
            self._handle,
            ctypes.c_void_p(ids.data_ptr()),
            ctypes.c_int64(len(ids)),
            ctypes.c_uint32(self._time),
            ctypes.c_void_p(slots.data_ptr()),
        )
        return slots


def full_index(stream: PowerLaw) -> torch.ScriptObject:
    index = torch.classes.hybrid_torchrec.HashIndex(len(stream.ids))
    for part in stream.ids.split(1 << 20):
        index.insert(part, torch.ones_like(part), 1)
    return index


def full_module(stream: PowerLaw) -> MCHManagedCollisionModule:
    """torchrec's module with every id in its table, ready to serve."""
    module = MCHManagedCollisionModule(
        zch_size=len(stream.ids) + 1,
        device=torch.device("cpu"),
        eviction_policy=LFU_EvictionPolicy(),
        eviction_interval=1,
    ).eval()
    module._mch_sorted_raw_ids[:-1] = stream.ids.sort().values
    return module


def duels(rows: int, batch: int, rounds: int) -> Iterator[Duel]:
    stream = PowerLaw(rows)
    index = full_index(stream)
    batches = [stream.ids[stream.ranks(batch)] for _ in range(rounds)]
    assert torch.equal(index.infos(index.find(batches[0]))[0], batches[0]), "our slots are wrong"
    yield beside_torchrec(stream, index, batches)
    yield beside_transformer(stream, index, batches)
    yield roofline(stream, index, batches)
    for count in NEW:
        yield new_ids(count)


def beside_torchrec(stream: PowerLaw, index: torch.ScriptObject, batches: list[torch.Tensor]) -> Duel:
    module = full_module(stream)
    lengths = torch.ones_like(batches[0])
    features = [{"f": JaggedTensor(values=ids, lengths=lengths)} for ids in batches]
    remapped = module(features[0])["f"].values()
    assert torch.equal(stream.ids.sort().values[remapped], batches[0]), "the peer's slots are wrong"
    return Duel(
        name=f"present ids, {len(stream.ids):,} rows",
        peer=COLLISIONS,
        unit="ids/s",
        amount=len(lengths),
        ours=lambda i: index.find(batches[i]),
        theirs=lambda i: module(features[i]),
        asked=5.0,
    )


def beside_transformer(stream: PowerLaw, index: torch.ScriptObject, batches: list[torch.Tensor]) -> Duel:
    rows = len(stream.ids)
    transformer = Transformer(rows)
    transformer.transform(stream.ids)
    return Duel(
        name=f"present ids with counts, {rows:,} rows",
        peer=TRANSFORMER,
        unit="ids/s",
        amount=len(batches[0]),
        ours=lambda i: index.touch(index.find(batches[i]), i + 2, 1.0),
        theirs=lambda i: transformer.transform(batches[i]),
        asked=20.0,
    )


class Fresh:
    """Random ids, other ones in each round."""

    def __init__(self, count: int) -> None:
        self._count, self._random = count, np.random.default_rng(1)

    def draw(self, _: int) -> None:
        self.ids = torch.from_numpy(self._random.integers(-(2**63), 2**63 - 1, self._count))


def new_ids(count: int) -> Duel:
    """Ours grows from nothing, the peer has room for all ids from the start. Both begin with memory that their process
    has had before: the peer's is malloc's (kept_memory.py); ours comes from a pool that keeps 64 MiB, in pieces of 32
    at most, and lends what is more, or larger, to the system, up to 1 GiB in pieces of 2 MiB at least
    (mapping_pool.h). What the system took of that comes page by page, and so does all that a map takes which grows in
    steps: its pages are dropped then, and were just freed when they are touched."""
    fresh = Fresh(count)

    def fill(_: int) -> None:
        grown = torch.classes.hybrid_torchrec.HashIndex(0)
        for part in fresh.ids.split(1 << 16):
            grown.insert(part, torch.ones_like(part), 1)

    return Duel(
        name=f"{count:,} new ids, growing from nothing",
        peer=TRANSFORMER + ", sized at first",
        unit="ids/s",
        amount=count,
        ours=fill,
        theirs=lambda _: Transformer(count).transform(fresh.ids),
        prepare=fresh.draw,
    )


def roofline(stream: PowerLaw, index: torch.ScriptObject, batches: list[torch.Tensor]) -> Duel:
    """The least that exact lookups with counts must do: a line of the map and one of the counts for each id, here of
    tables as large as ours, at the places of the same ids, with no search and no arithmetic."""
    rows = len(stream.ids)
    library = peers()
    lines = [torch.ones(8 * ((4 * rows) // 15), dtype=torch.int64), torch.ones(2 * rows, dtype=torch.int64)]
    hashed = torch.ops.hybrid_torchrec.mix64
    places = [
        [where % (len(table) // 8) for where, table in zip((hashed(ids), index.find(ids)), lines, strict=True)]
        for ids in batches
    ]

    def fetch(i: int) -> None:
        for table, order in zip(lines, places[i], strict=True):
            library.fetch_lines(
                ctypes.c_void_p(table.data_ptr()),
                ctypes.c_void_p(order.data_ptr()),
                ctypes.c_int64(len(order)),
                ctypes.c_int64(AHEAD),
            )

    return Duel(
        name=f"present ids with counts, {rows:,} rows",
        peer=LINES,
        unit="ids/s",
        amount=len(batches[0]),
        ours=lambda i: index.touch(index.find(batches[i]), i + 100, 1.0),
        theirs=fetch,
        asked=0.0,
    )
