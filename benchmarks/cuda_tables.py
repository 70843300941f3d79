"""What benchmarks.embeddings_cuda compares: batches of ids, ten hash tables, and two kinds of static ones."""

import numpy as np
import torch
from hybrid_torchrec import Constant, HashTable, OptimizerSpec, TableConfig, Uniform
from hybrid_torchrec.table.group import TableGroup

TABLES, DIM, EXPONENT = 10, 128, 1.05
LENGTH = 104_857  # ids of a table in a batch: 1,048,570 in all
BATCHES = 6


class Workload:
    """Batches of ids and of the row numbers that static tables have for them.

    fresh ids of each table's part of a batch were never seen. Static tables have a row for them too: as many rows are
    moved, side by side as those that hash tables make, and none of the last batches'.
    """

    def __init__(self, rows: int) -> None:
        random = np.random.default_rng(0)
        shares = np.arange(1, rows + 1, dtype=np.float64) ** -EXPONENT
        cumulated = np.cumsum(shares) / shares.sum()
        self.rows, self.lengths = rows, [LENGTH] * TABLES
        self.known = torch.from_numpy(random.integers(-(2**63), 2**63 - 1, (TABLES, rows)))
        self.fresh, self._made = 0, 0
        self.batches = []
        for _ in range(BATCHES):
            drawn = np.searchsorted(cumulated, random.random((TABLES, LENGTH))).clip(0, rows - 1)
            self.batches.append(torch.from_numpy(random.permuted(np.arange(rows))[drawn]))
        self.ids = [self.known.gather(1, batch).cuda() for batch in self.batches]
        self.slots = [(batch + 1).flatten().cuda() for batch in self.batches]

    def reset(self, share: float) -> None:
        """For other hash tables; share of ids that are new."""
        self.fresh, self._made = int(share * LENGTH), 0

    def next_slots(self, step: int) -> torch.Tensor:
        """(L,) for static tables."""
        slots = self.slots[step % BATCHES]
        if self.fresh:
            slots = slots.clone().view(TABLES, LENGTH)
            first = self.rows + 1 + step % (LENGTH // self.fresh) * self.fresh
            slots[:, : self.fresh] = torch.arange(first, first + self.fresh, device="cuda")
        return slots.flatten()

    def next_ids(self, step: int) -> torch.Tensor:
        """(L,) for hash tables."""
        ids = self.ids[step % BATCHES]
        if self.fresh:
            ids = ids.clone()
            first = 2**40 + self._made  # ids that random 64-bit words hardly hit
            ids[:, : self.fresh] = torch.arange(first, first + self.fresh, device="cuda")
            self._made += self.fresh
        return ids.flatten()


def tables(kind: str, rows: int, slack: int) -> list[HashTable]:
    spec = OptimizerSpec(kind=kind, lr=0.01, eps=1e-8)
    return [
        HashTable(
            TableConfig(
                name=f"t{i}",
                dim=DIM,
                optimizer=spec,
                initial_capacity=rows + slack,
                initializer=Uniform(low=-0.05, high=0.05),
                seed=i,
            ),
            "cuda",
        )
        for i in range(TABLES)
    ]


def fill(hashed: list[HashTable], known: torch.Tensor) -> None:
    for table, ids in zip(hashed, known, strict=True):
        for part in ids.split(1 << 18):
            table.assign(part, train=True)


class TorchTables:
    """One table of all rows in PyTorch's operators: index_select; sort, sum of duplicates, step of the rows."""

    def __init__(self, kind: str, rows: int) -> None:
        each = rows + LENGTH + 1
        self.weights = torch.zeros(TABLES * each, DIM, device="cuda")
        spec = OptimizerSpec(kind=kind, lr=0.01, eps=1e-8)
        self.state = {
            n: torch.zeros((len(self.weights), w) if w else (len(self.weights),), device="cuda")
            for n, w in spec.state_widths(DIM).items()
        }
        self.spec, self.base = spec, (torch.arange(TABLES, device="cuda") * each).repeat_interleave(LENGTH)

    def lookup(self, slots: torch.Tensor) -> torch.Tensor:
        return self.weights.index_select(0, slots + self.base)

    def update(self, slots: torch.Tensor, grads: torch.Tensor) -> None:
        from hybrid_torchrec.backends import torch_rows

        distinct, sums = torch_rows.aggregate(slots + self.base, grads, None, False, None)
        torch_rows.update(self.weights, self.state, distinct, sums, self.spec, 0.01, 1)


class StaticTables:
    """The same kernels on tables whose ids are slots."""

    def __init__(self, kind: str, rows: int) -> None:
        spec = OptimizerSpec(kind=kind, lr=0.01, eps=1e-8)
        config = {"dim": DIM, "optimizer": spec, "initial_capacity": rows + LENGTH, "initializer": Constant()}
        self._group = TableGroup([HashTable(TableConfig(name="s", **config), "cuda") for _ in range(TABLES)])
        self._lengths = [LENGTH] * TABLES

    def lookup(self, slots: torch.Tensor) -> torch.Tensor:
        return self._group.lookup(slots, self._lengths)

    def update(self, slots: torch.Tensor, grads: torch.Tensor) -> None:
        self._group.update(slots, self._lengths, grads)
