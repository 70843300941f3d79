"""A hash table as a Python dict, in NumPy: what HashTable must equal."""

from dataclasses import dataclass, field

import numpy as np
import torch


@dataclass
class Row:
    weights: np.ndarray  # float32
    shows: float
    last_step: int
    version: int
    clicks: float = 0.0


@dataclass
class Model:
    """LFU or no eviction, SGD with a rate of 1; `first` gives the initial values of an id."""

    first: object
    max_rows: int | None = None
    rows: dict[int, Row] = field(default_factory=dict)
    erased: list[tuple[int, int]] = field(default_factory=list)
    step: int = 0
    version: int = 1
    recording: bool = False

    def assign(self, ids: list[int]) -> bool:
        """Returns False where the table is full."""
        self.step += 1
        for id in ids:
            if id in self.rows:
                self.rows[id].shows += 1
                self.rows[id].last_step = max(self.step, self.rows[id].last_step)  # a written row may be ahead
        new = [id for id in dict.fromkeys(ids) if id not in self.rows]
        if not self.make_room(len(new), set(ids)):
            return False
        for id in new:
            self.rows[id] = Row(self.first(id), float(ids.count(id)), self.step, self.version)
        return True

    def make_room(self, new: int, keep: set[int]) -> bool:
        if self.max_rows is None or len(self.rows) + new <= self.max_rows:
            return True
        needed = len(self.rows) + new - self.max_rows
        order = sorted(self.rows.items(), key=lambda item: (item[1].shows, item[1].last_step, item[0]))
        victims = [id for id, _ in order if id not in keep][:needed]
        if len(victims) < needed:
            return False
        for id in victims:
            self.erase(id)
        return True

    def erase(self, id: int) -> int:
        if self.rows.pop(id, None) is None:
            return 0
        if self.recording:
            self.erased.append((self.version, id))
        return 1

    def update(self, ids: list[int], grads: np.ndarray) -> None:
        for id, grad in zip(ids, grads, strict=True):
            if id in self.rows:
                self.rows[id].weights = self.rows[id].weights - grad
                self.rows[id].version = self.version

    def changed_since(self, version: int) -> tuple[set[int], set[int], int]:
        changed = {id for id, row in self.rows.items() if row.version >= version}
        erased = {id for at, id in self.erased if at >= version and id not in self.rows}
        self.version += 1
        self.recording = True
        return changed, erased, self.version


def long(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)
