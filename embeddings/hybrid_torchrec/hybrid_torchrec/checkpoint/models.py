"""A TorchRec model in a checkpoint: its hash tables as shards, and the rest of it without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hybrid_torchrec.checkpoint.tables import TableShard
from hybrid_torchrec.distributed.table import ShardedTableModule
from hybrid_torchrec.modules.table import TableModule

_HERE = "a hash table is here"


class DenseState:
    """A Stateful of torch.distributed.checkpoint: a model (sharded or not) without the rows of its hash tables.

        checkpointer = Checkpointer(root, table_shards(model))
        checkpointer.save(step, {"model": DenseState(model), "optimizer": optimizer})

    The model's own state_dict() has the rows too: it copies all of them, and loads on as many ranks as saved it.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def state_dict(self) -> dict[str, Any]:
        return _state_and_tables(self.model)[0]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with _without_rows(self.model):
            self.model.load_state_dict(state)


def table_shards(model: nn.Module) -> dict[str, TableShard]:
    """The hash tables of which this rank has rows, by the names that they have in the model's state_dict.

    Of a table that is split by columns every column shard is one, `<table>.columns_<first>`: it loads where the table
    is split alike, on any ranks.
    """
    found = {}
    for name, module in _state_and_tables(model)[1].items():
        if not isinstance(module, ShardedTableModule):
            found[name] = TableShard(module.whole.table)
            continue
        for shard in module.shards:
            part = module.part_at(shard.column)
            if part is not None:
                column = f".columns_{shard.column}" if len(module.shards) > 1 else ""
                found[name + column] = TableShard(part.table, shard.ranks.index(module.rank), len(shard.ranks))
    return found


def _state_and_tables(model: nn.Module) -> tuple[dict[str, Any], dict[str, TableModule]]:
    """The state without tables, and the tables by their name in it (wrappers of the model leave their names out)."""
    with _without_rows(model) as marks:
        state = dict(model.state_dict())
    tables = {}
    for key in [key for key in state if key.endswith(_HERE)]:
        tables[key.removesuffix(f".{_HERE}")] = marks[int(state.pop(key))]
    return state, tables


@contextmanager
def _without_rows(model: nn.Module) -> Iterator[list[TableModule]]:
    """Inside, tables leave the number of their place in the list yielded in the state, and load nothing."""
    modules = list(dict.fromkeys(module for module in model.modules() if isinstance(module, TableModule)))

    def mark(number: int) -> Any:
        def save(destination: dict[str, Tensor], prefix: str, keep_vars: bool) -> None:
            destination[prefix + _HERE] = torch.tensor(number)

        return save

    for number, module in enumerate(modules):
        module.__dict__["_save_to_state_dict"] = mark(number)
        module.__dict__["_load_from_state_dict"] = lambda *_: None
    try:
        yield modules
    finally:
        for module in modules:
            del module.__dict__["_save_to_state_dict"], module.__dict__["_load_from_state_dict"]
