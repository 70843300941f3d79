"""Tables of two columns, and what is in them."""

import torch
from hybrid_torchrec import HashTable, TableConfig


def make(**fields: object) -> HashTable:
    return HashTable(TableConfig(name="t", dim=2, **fields))


def train(table: HashTable, *ids: int) -> list[int]:
    return table.assign(torch.tensor(ids, dtype=torch.int64), train=True).tolist()


def have(table: HashTable) -> set[int]:
    return set(table.ids().tolist())
