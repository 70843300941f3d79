"""HashTable against a Python dict, call by call."""

import numpy as np
import pytest
import torch
from hybrid_torchrec import LFU, HashTable, OptimizerSpec, RowBatch, TableConfig, TableFull, Uniform
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from model import Model, Row, long

DIM = 3
EXTREMES = [0, -1, 1, 2**63 - 1, -(2**63), 2**32, -(2**31)]
# Few ids, so that calls meet each other's rows.
IDS = st.sampled_from(EXTREMES + list(range(2, 40)))
BATCH = st.lists(IDS, max_size=14)


class TableMachine(RuleBasedStateMachine):
    """Grows without limit."""

    max_rows: int | None = None

    def __init__(self) -> None:
        super().__init__()
        initializer = Uniform(low=-8.0, high=8.0)
        config = TableConfig(
            name="machine",
            dim=DIM,
            optimizer=OptimizerSpec(kind="sgd", lr=1.0),
            initializer=initializer,
            eviction=None if self.max_rows is None else LFU(share=0.0),
            initial_capacity=0,
            max_rows=self.max_rows,
            seed=5,
        )
        self.table = HashTable(config)
        self.model = Model(lambda id: initializer.rows(long([id]), DIM, 5)[0].numpy(), self.max_rows)
        self.versions = [0]
        self.default = self.table.lookup(long([0]))[0].numpy().copy()

    def rows_of(self, ids: list[int]) -> np.ndarray:
        rows = [self.model.rows[id].weights if id in self.model.rows else self.default for id in ids]
        return np.array(rows, dtype=np.float32).reshape(len(ids), DIM)

    @rule(ids=BATCH)
    def train(self, ids: list[int]) -> None:
        if self.model.assign(ids):
            slots = self.table.assign(long(ids), train=True)
            assert np.array_equal(self.table.lookup(slots).numpy(), self.rows_of(ids))
            assert len(set(slots.tolist())) == len(set(ids))
        else:
            with pytest.raises(TableFull, match="machine"):
                self.table.assign(long(ids), train=True)

    @precondition(lambda self: self.max_rows is None)
    @rule(first=st.integers(100, 3000), count=st.integers(1, 400))
    def train_range(self, first: int, count: int) -> None:
        self.train(list(range(first, first + count)))

    @rule(ids=BATCH)
    def serve(self, ids: list[int]) -> None:
        slots = self.table.assign(long(ids), train=False)
        assert np.array_equal(self.table.lookup(slots).numpy(), self.rows_of(ids))
        found = self.table.find(long(ids))
        assert [slot >= 0 for slot in found.tolist()] == [id in self.model.rows for id in ids]

    @rule(ids=BATCH, data=st.data())
    def update(self, ids: list[int], data: st.DataObject) -> None:
        whole = st.lists(st.integers(-4, 4), min_size=DIM, max_size=DIM)
        grads = data.draw(st.lists(whole, min_size=len(ids), max_size=len(ids)))
        slots = self.table.assign(long(ids), train=False)
        grad = np.array(grads, dtype=np.float32).reshape(len(ids), DIM)
        self.table.update(slots, torch.from_numpy(grad))
        # Whole numbers add up exactly; the sum is subtracted once.
        total = {id: sum(g for i, g in zip(ids, grad, strict=True) if i == id) for id in dict.fromkeys(ids)}
        self.model.update(list(total), np.array(list(total.values()), dtype=np.float32).reshape(-1, DIM))

    @rule(ids=BATCH)
    def read(self, ids: list[int]) -> None:
        rows, found = self.table.read(long(ids))
        there = [id for id in ids if id in self.model.rows]
        assert found.tolist() == [id in self.model.rows for id in ids]
        self.check(rows, there)

    def check(self, rows: RowBatch, ids: list[int]) -> None:
        assert rows.ids.tolist() == ids
        assert np.array_equal(rows.weights.numpy(), self.rows_of(ids))
        assert rows.shows.tolist() == [self.model.rows[id].shows for id in ids]
        assert rows.clicks.tolist() == [self.model.rows[id].clicks for id in ids]
        assert rows.last_step.tolist() == [self.model.rows[id].last_step for id in ids]

    @rule(ids=st.lists(IDS, max_size=8, unique=True), value=st.floats(-1e3, 1e3, width=32), shows=st.integers(0, 9))
    def write(self, ids: list[int], value: float, shows: int) -> None:
        weights = torch.full((len(ids), DIM), value)
        counts = torch.full((len(ids),), float(shows))
        rows = RowBatch(
            ids=long(ids), weights=weights, state={}, shows=counts, clicks=counts + 1, last_step=long([3] * len(ids))
        )
        new = [id for id in ids if id not in self.model.rows]
        if self.model.make_room(len(new), set(ids)):
            self.table.write(rows)
            for i, id in enumerate(ids):
                self.model.rows[id] = Row(weights[i].numpy(), float(shows), 3, self.model.version, float(shows + 1))
        else:
            with pytest.raises(TableFull):
                self.table.write(rows)

    @rule(ids=BATCH)
    def erase(self, ids: list[int]) -> None:
        assert self.table.erase(long(ids)) == sum(self.model.erase(id) for id in ids)

    @rule(ids=st.lists(IDS, max_size=8, unique=True))
    def pop(self, ids: list[int]) -> None:
        there = [id for id in ids if id in self.model.rows]
        expected = self.rows_of(there)
        rows = self.table.pop(long(ids))
        assert rows.ids.tolist() == there and np.array_equal(rows.weights.numpy(), expected)
        for id in there:
            self.model.erase(id)

    @rule(data=st.data())
    def changes(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(self.versions))
        rows, erased, now = self.table.changed_since(version)
        changed, gone, model_now = self.model.changed_since(version)
        assert set(rows.ids.tolist()) == changed and now == model_now
        assert len(set(erased.tolist())) == len(erased) and set(erased.tolist()) == gone
        assert np.array_equal(rows.weights.numpy(), self.rows_of(rows.ids.tolist()))
        self.versions.append(now)

    @rule(n=st.integers(0, 10), keep=st.lists(IDS, max_size=5))
    def victims(self, n: int, keep: list[int]) -> None:
        # Without a policy the least recently seen go first.
        def order(id: int) -> tuple[float, int, int]:
            row = self.model.rows[id]
            return (0.0 if self.max_rows is None else row.shows, row.last_step, id)

        expected = sorted((id for id in self.model.rows if id not in keep), key=order)[:n]
        assert self.table.select_victims(n, long(keep)).tolist() == expected

    @invariant()
    def same_ids(self) -> None:
        assert len(self.table) == len(self.model.rows)
        ids = self.table.ids().tolist()
        assert len(ids) == len(set(ids)) and set(ids) == self.model.rows.keys()
        assert np.array_equal(self.table.lookup(long([0]))[0].numpy(), self.default)


class FullTableMachine(TableMachine):
    """Evicts the least frequently seen at 12 rows."""

    max_rows = 12


# Shrinking of long runs takes minutes; the first failing run says enough.
COMMON = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    max_examples=60,
    stateful_step_count=30,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
TestGrowing = TableMachine.TestCase
TestGrowing.settings = COMMON
TestFull = FullTableMachine.TestCase
TestFull.settings = COMMON
