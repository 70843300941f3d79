"""A training step of tables on a GPU waits for it neither to insert ids nor to know whether there is room."""

from collections.abc import Callable

import pytest
import torch
from hybrid_torchrec import HashTable, OptimizerSpec, TableConfig, Uniform
from hybrid_torchrec.backends.cuda import launches
from hybrid_torchrec.table import TableGroup
from interpreted import DEVICE, ON_GPU, DeviceTable
from test_tables import same

IDS, STEPS = (3000, 12) if ON_GPU else (60, 8)


def tables(count: int, rows: int, **fields: object) -> list[HashTable]:
    return [
        DeviceTable(
            TableConfig(
                name=f"t{i}",
                dim=8,
                initial_capacity=rows,
                optimizer=OptimizerSpec(kind="adagrad"),
                initializer=Uniform(low=-1.0, high=1.0),
                **fields,
            )
        )
        for i in range(count)
    ]


def one_by_one(made: list[HashTable]) -> Callable[[torch.Tensor], None]:
    def step(ids: torch.Tensor) -> None:
        for table, part in zip(made, ids.chunk(len(made))):
            slots = table.assign(part, train=True)
            table.update(slots, table.lookup(slots))

    return step


def together(made: list[HashTable]) -> Callable[[torch.Tensor], None]:
    group = TableGroup(made)

    def step(ids: torch.Tensor) -> None:
        lengths = [len(part) for part in ids.chunk(len(made))]
        slots = group.assign(ids, lengths, train=True)
        group.update(slots, lengths, group.lookup(slots, lengths))

    return step


def batches(fresh: int) -> list[torch.Tensor]:
    """Of two tables; `fresh` ids of each table's part are new in each batch."""
    made = []
    for step in range(STEPS):
        part = torch.cat([torch.arange(IDS - fresh), 10**6 + step * fresh + torch.arange(fresh)])
        made.append(torch.cat([part, part.flip(0)]).to(DEVICE))
    return made


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU to wait for")
@pytest.mark.parametrize("way", [one_by_one, together])
@pytest.mark.parametrize("rows", [0, IDS], ids=["empty at first", "as large as the batch"])
@pytest.mark.parametrize("fresh", [0, 40])
def test_a_step_does_not_wait(way, rows: int, fresh: int) -> None:
    """In a table that has no row to spare by its settings, too. The first steps compile kernels, and make room."""
    step, given = way(tables(2, rows)), batches(fresh)
    for ids in given[:6]:
        step(ids)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for ids in given[6:]:
            step(ids)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("fresh", [0, 7])
def test_spare_room_changes_no_row(fresh: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables with and without it; the room stays near what the batches need."""
    spared, exact = tables(2, IDS), tables(2, IDS)
    for table in exact:
        monkeypatch.setattr(table.backend, "_keeps_spare", False)
    for way in (one_by_one(spared), one_by_one(exact)):
        for ids in batches(fresh):
            way(ids)
    for mine, other in zip(spared, exact):
        same(mine, other)
        used = len(mine) + 1
        assert used <= mine.capacity <= 2 * used + 5 * IDS
    if not fresh:
        assert [table.capacity for table in exact] == [IDS + 1] * 2 and spared[0].capacity > IDS + 1


def test_no_memory_for_spare_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table goes on without; what it holds is what it would have held."""
    short, other = tables(2, IDS)

    def no_memory(slots: int, *, exactly: bool = False) -> None:
        if exactly:
            raise torch.OutOfMemoryError("made up")
        grow(slots)

    grow = short.backend.storage.grow
    monkeypatch.setattr(short.backend.storage, "grow", no_memory)
    for ids in batches(7):
        for table in (short, other):
            slots = table.assign(ids[:IDS], train=True)
            table.update(slots, table.lookup(slots))
    same(short, other)


@pytest.mark.parametrize("limit", [IDS, IDS + 30])
def test_spare_room_keeps_to_max_rows(limit: int) -> None:
    table = tables(1, 4, max_rows=limit)[0]
    for ids in batches(0):
        table.assign(ids[:IDS], train=True)
    assert len(table) == IDS and table.capacity <= limit + 1


@pytest.mark.skipif(not ON_GPU or not launches.FAST, reason="needs a GPU, and a Triton whose launches are known")
def test_launches_that_skip_the_search_are_those_of_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ids and gradients at any alignment, and of numbers that Triton compiles for."""
    quick, slow = tables(2, 100)
    for shift in (0, 1, 2, 0, 1):
        for count in (1, 16, 17, 32):
            ids = torch.arange(1000, device=DEVICE)[shift : shift + count] * 3
            grads = torch.randn(1000, 8, device=DEVICE)
            found = []
            for table, fast in ((quick, True), (slow, False)):
                monkeypatch.setattr(launches, "FAST", fast)
                slots = table.assign(ids, train=True)
                table.update(slots, grads.flatten()[shift : shift + 8 * count].view(count, 8))
                found.append(table.lookup(slots))
            assert torch.equal(*found)
    monkeypatch.undo()
    same(quick, slow, rtol=0.0, atol=0.0)
