"""Any order of training, eviction, saving, crashes and loading, against a model made of Python dicts.

Of test_saved_states.py, and of torchrec_embcache's test of the same name with tables of three tiers.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from hybrid_torchrec.checkpoint import Checkpointer, TableShard, compact
from hybrid_torchrec.checkpoint.removal import UNFINISHED
from hybrid_torchrec.initializers import Uniform
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.policies import LFU
from hybrid_torchrec.serving import Consumer, Publisher
from hybrid_torchrec.table import HashTable, RowBatch, TableConfig
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

DIM, MAX_ROWS, LR = 3, 12, 0.5
IDS = st.sampled_from([0, -1, 2**63 - 1, -(2**63), *range(1, 16)])
BATCH = st.lists(IDS, min_size=1, max_size=6)
CONFIG = TableConfig(
    name="user",
    dim=DIM,
    optimizer=OptimizerSpec(kind="adagrad", lr=LR),
    initializer=Uniform(low=-1, high=1),
    eviction=LFU(share=0.0),
    max_rows=MAX_ROWS,
    initial_capacity=1,
)


@dataclass
class Row:
    weights: np.ndarray
    momentum: np.ndarray
    shows: int
    last_step: int


@dataclass
class Model:
    """What a table is, in float64 and Python's dicts."""

    max_rows: int | None
    rows: dict[int, Row] = field(default_factory=dict)
    step: int = 0

    def assign(self, ids: list[int]) -> None:
        self.step += 1
        for i in ids:
            if i in self.rows:
                self.rows[i].shows += 1
                self.rows[i].last_step = self.step
        new = [i for i in dict.fromkeys(ids) if i not in self.rows]
        self.make_room(len(new), set(ids))
        for i in new:
            self.rows[i] = Row(first_weights(i), np.zeros(DIM), ids.count(i), self.step)

    def make_room(self, new: int, keep: set[int]) -> None:
        surplus = 0 if self.max_rows is None else len(self.rows) + new - self.max_rows
        order = sorted((row.shows, row.last_step, i) for i, row in self.rows.items() if i not in keep)
        for _, _, i in order[: max(0, surplus)]:
            del self.rows[i]

    def update(self, ids: list[int], gradients: np.ndarray) -> None:
        for i in dict.fromkeys(ids):
            total = sum(gradients[k] for k in range(len(ids)) if ids[k] == i)
            row = self.rows[i]
            row.momentum = row.momentum + total**2
            row.weights = row.weights - LR * total / (np.sqrt(row.momentum) + 1e-10)


def first_weights(i: int) -> np.ndarray:
    return CONFIG.initializer.rows(torch.tensor([i]), DIM, CONFIG.seed)[0].double().numpy()


def assert_agree(table: HashTable, model: Model) -> None:
    rows, found = table.read(torch.tensor(sorted(model.rows), dtype=torch.int64))
    assert bool(found.all()) and len(table) == len(model.rows), (sorted(table.ids().tolist()), sorted(model.rows))
    assert table.step == model.step
    for k, i in enumerate(rows.ids.tolist()):
        row = model.rows[i]
        np.testing.assert_allclose(rows.weights[k].numpy(), row.weights, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(rows.state["momentum1"][k].numpy(), row.momentum, rtol=1e-4, atol=1e-6)
        assert (rows.shows[k].item(), rows.last_step[k].item()) == (row.shows, row.last_step)


class Training(RuleBasedStateMachine):
    """`committed`: the model at every checkpoint that is complete; a crash goes back to the newest of them."""

    config = CONFIG

    def new_table(self) -> HashTable:
        return HashTable(self.config)

    def end(self, table: HashTable) -> None:
        """Nobody needs it any more."""

    def new_model(self) -> Model:
        return Model(self.config.max_rows)

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.committed: dict[int, Model] = {}
        self.clock = 0
        self.follows = False  # whether a delta has something to follow
        self.published: Model | None = None
        self.restart()
        self.model = self.new_model()

    def restart(self) -> None:
        self.table = self.new_table()
        self.checkpointer = Checkpointer(self.folder / "saved", {"user": self.table}, keep=2)
        self.publisher: Publisher | None = None
        self.consumer = Consumer(self.folder / "stream", name="c")

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @rule(ids=BATCH, seed=st.integers(0, 99))
    def train(self, ids: list[int], seed: int) -> None:
        gradients = np.random.default_rng(seed).normal(size=(len(ids), DIM)).astype(np.float32)
        self.table.update(self.table.assign(torch.tensor(ids), train=True), torch.from_numpy(gradients))
        self.model.assign(ids)
        self.model.update(ids, gradients.astype(np.float64))
        assert_agree(self.table, self.model)

    @rule(ids=BATCH)
    def see(self, ids: list[int]) -> None:
        self.table.assign(torch.tensor(ids), train=True)
        self.model.assign(ids)
        assert_agree(self.table, self.model)

    @rule(ids=BATCH)
    def erase(self, ids: list[int]) -> None:
        self.table.erase(torch.tensor(ids))
        for i in ids:
            self.model.rows.pop(i, None)
        assert_agree(self.table, self.model)

    @rule(i=IDS, value=st.floats(-4, 4, width=32))
    def write(self, i: int, value: float) -> None:
        if i not in self.model.rows:
            self.model.make_room(1, {i})
        self.model.rows[i] = Row(np.full(DIM, value), np.full(DIM, 0.25), 5, self.model.step)
        row = RowBatch(
            ids=torch.tensor([i]),
            weights=torch.full((1, DIM), value),
            shows=torch.tensor([5.0]),
            state={"momentum1": torch.full((1, DIM), 0.25)},
            clicks=torch.zeros(1),
            last_step=torch.tensor([self.model.step]),
        )
        self.table.write(row)
        assert_agree(self.table, self.model)

    @rule()
    def save(self) -> None:
        self.clock += 1
        self.checkpointer.save(self.clock)
        self.commit()

    @rule(ids=BATCH)
    def save_while_training(self, ids: list[int]) -> None:
        self.clock += 1
        at_call = copy.deepcopy(self.model)
        pending = self.checkpointer.save_async(self.clock)
        self.train(ids, 7)
        self.erase(ids[:1])
        pending.wait(60)
        self.commit(at_call)

    @precondition(lambda self: self.follows)
    @rule()
    def save_delta(self) -> None:
        self.clock += 1
        self.checkpointer.save_delta(self.clock)
        self.commit()

    def commit(self, model: Model | None = None) -> None:
        self.committed[self.clock] = copy.deepcopy(model or self.model)
        self.follows = True

    @precondition(lambda self: self.committed)
    @rule()
    def compact(self) -> None:
        compact(self.folder / "saved")

    @precondition(lambda self: self.committed)
    @rule()
    def load_any(self) -> None:
        for step in self.checkpointer.steps():
            table = self.new_table()
            Checkpointer(self.folder / "saved", {"user": table}).load(step=step)
            assert_agree(table, self.committed[step])
            self.end(table)

    @rule(torn=st.booleans())
    def crash(self, torn: bool) -> None:
        """The process is gone, maybe in the middle of a save."""
        if torn and self.committed:
            newest = self.checkpointer.folder.latest().path
            half = self.folder / "saved" / f".saving-full-{self.clock + 1:012d}"
            shutil.copytree(newest, half, dirs_exist_ok=True)
            (half / "MANIFEST.json").unlink()
            (half / UNFINISHED).touch()
        self.restart()
        self.model, self.follows = self.new_model(), False
        if self.committed:
            newest_step = max(self.committed)
            assert self.checkpointer.load() == newest_step
            self.model, self.follows = copy.deepcopy(self.committed[newest_step]), True
        assert_agree(self.table, self.model)

    @rule()
    def publish(self) -> None:
        if self.publisher is None:
            self.publisher = Publisher(self.folder / "stream", {"user": TableShard(self.table)})
        else:
            self.publisher.publish(self.clock)
        while self.consumer.poll():
            pass
        ids = torch.tensor(sorted(self.model.rows), dtype=torch.int64)
        weights, found = self.consumer.lookup("user", ids)
        assert bool(found.all()) and torch.equal(weights, self.table.read(ids)[0].weights)
        assert self.consumer.status()["tables"] == {"user": len(self.model.rows)}
