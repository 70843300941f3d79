"""Growth in small steps, and readers beside the thread that trains."""

import os
import subprocess
import sys
import threading

import torch
from hybrid_torchrec import LRU, Constant, HashTable, OptimizerSpec, TableConfig

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def unmix(x: int) -> int:
    """The inverse of SplitMix64's finaliser."""

    def unshift(value: int, bits: int) -> int:
        result = value
        for _ in range(64 // bits + 1):
            result = value ^ result >> bits
        return result

    x = unshift(x, 31) * pow(0x94D049BB133111EB, -1, 2**64) & MASK
    x = unshift(x, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK
    return unshift(x, 30)


def signed(x: int) -> int:
    x &= MASK
    return x - 2**64 if x >= 2**63 else x


def test_an_insertion_moves_at_most_two_buckets() -> None:
    index = torch.classes.hybrid_torchrec.HashIndex(0)
    for first in range(0, 300_000, 10_000):
        ids = torch.arange(first, first + 10_000) * 3
        index.insert(ids, torch.ones_like(ids), 1)
    assert 0 < index.most_moved() <= 10
    assert torch.equal(index.find(torch.arange(300_000) * 3), torch.arange(1, 300_001))
    assert (index.find(torch.arange(300_000) * 3 + 1) == -1).all()


def test_ids_of_one_bucket() -> None:
    """1,200 ids whose hashes are neighbours: chains of hundreds of full buckets, with ends and gaps."""
    ids = torch.tensor([signed(unmix(i) - GAMMA) for i in range(1200)])
    table = HashTable(TableConfig(name="t", dim=1, initial_capacity=4000))
    slots = table.assign(ids[:1000], train=True)
    assert len(set(slots.tolist())) == 1000 and torch.equal(table.find(ids[:1000]), slots)
    assert (table.find(ids[1000:]) == -1).all()
    assert table.erase(ids[::3]) == 334
    expected = [i < 1000 and i % 3 != 0 for i in range(1200)]
    assert (table.find(ids) >= 0).tolist() == expected
    table.assign(ids, train=True)
    assert len(table) == 1200 and len(set(table.find(ids).tolist())) == 1200


def test_rows_stay_where_they_are() -> None:
    table = HashTable(TableConfig(name="t", dim=16, initial_capacity=10, optimizer=OptimizerSpec(kind="adam")))
    before = table.weights.data_ptr(), table.state["momentum2"].data_ptr()
    kept = table.assign(torch.arange(10), train=True)
    table.update(kept, torch.ones(10, 16))
    rows = table.lookup(kept)
    table.assign(torch.arange(10, 100_000), train=True)
    assert (table.weights.data_ptr(), table.state["momentum2"].data_ptr()) == before
    assert torch.equal(table.find(torch.arange(10)), kept) and torch.equal(table.lookup(kept), rows)
    assert table.capacity > 100_000 and table.bytes() >= 100_000 * table.row_bytes == 100_000 * 16 * 4 * 3


def test_memory_grows_by_a_share_and_never_past_the_limit(device: str) -> None:
    """A row more each time would copy a table on an NPU each time; a table at its limit has a slot for each row."""
    table = HashTable(TableConfig(name="t", dim=3, initial_capacity=10, max_rows=1000, eviction=LRU()), device)
    capacities = [table.capacity]
    for first in range(0, 1400, 7):
        table.assign(torch.arange(first, first + 7), train=True)
        assert len(table) + 1 <= table.capacity <= 1001
        capacities.append(table.capacity)
    assert capacities[0] == 11 and capacities[-1] == 1001 and len(table) > 950
    grown = sorted(set(capacities))
    assert all(after >= before * 3 // 2 for before, after in zip(grown, grown[1:-1])), grown


def test_readers_beside_training(device: str) -> None:
    """Each row's columns are equal at all times; a row that is read is whole, and belongs to the id."""
    config = TableConfig(
        name="t",
        dim=24,
        optimizer=OptimizerSpec(kind="sgd", lr=1.0),
        initializer=Constant(value=0.0),
        initial_capacity=8,
        max_rows=3000,
        eviction=LRU(),
    )
    table = HashTable(config, device)
    stop = threading.Event()
    faults: list[str] = []
    reads = [0]

    def check() -> None:
        generator = torch.Generator().manual_seed(1)
        while not stop.is_set():
            ids = torch.randint(0, 5000, (300,), generator=generator)
            table.find(ids)
            rows, found = table.read(ids)
            if not torch.equal(rows.ids.cpu(), ids[found]):
                faults.append("rows of other ids")
            values = rows.weights.cpu()
            # A row is its id times the number of its updates.
            if not (values == values[:, :1]).all() or (values[:, 0] % ids[found].clamp(min=1) != 0).any():
                faults.append(f"torn rows: {values[(values != values[:, :1]).any(1)][:2]}")
            reads[0] += 1

    readers = [threading.Thread(target=check) for _ in range(2)]
    for reader in readers:
        reader.start()
    generator = torch.Generator().manual_seed(0)
    step = 0
    while step < 60 or (reads[0] < 5 and step < 5000):
        ids = torch.randint(0, 5000, (400,), generator=generator).unique()
        slots = table.assign(ids, train=True)
        table.update(slots, -ids.float().to(device).unsqueeze(1).expand(-1, 24))
        if step % 7 == 0:
            table.erase(ids[:20])
        step += 1
    stop.set()
    for reader in readers:
        reader.join()
    assert faults == [] and reads[0] > 0 and table.evictions > 0


CAPABILITY = """
import torch
from hybrid_torchrec import *
torch.manual_seed(0)
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    for kind in ("sgd", "adagrad", "rowwise_adagrad", "adam", "lamb"):
        spec = OptimizerSpec(kind=kind, lr=0.1, weight_decay=0.01)
        table = HashTable(TableConfig(name="t", dim=45, dtype=dtype, optimizer=spec, initializer=Normal(std=1.0)))
        for _ in range(3):
            slots = table.assign(torch.randint(0, 50, (200,)), train=True)
            table.embed_pooled(slots, torch.arange(0, 201, 5), "mean").backward(torch.randn(40, 45))
        print(*table.weights[: len(table) + 1].double().flatten().tolist())
"""


def test_every_instruction_set_gives_the_same() -> None:
    def run(chosen: str) -> torch.Tensor:
        environment = {**os.environ, "MXREC_CPU_CAPABILITY": chosen, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        done = subprocess.run(
            [sys.executable, "-c", CAPABILITY], env=environment, check=True, capture_output=True, text=True
        )
        return torch.tensor([float(word) for word in done.stdout.split()])

    best = run("")
    for capability in ("generic", "avx2"):
        # A rounding of 16 bits may fall to the other side: one bfloat16 spacing.
        torch.testing.assert_close(run(capability), best, rtol=2**-7, atol=2e-3)
