"""What the unsharded collections share."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch.distributed as dist
from torch import nn
from torchrec.optim.fused import FusedOptimizerModule

from hybrid_torchrec.modules.config import HashConfig
from hybrid_torchrec.modules.optimizer import HashOptimizer
from hybrid_torchrec.modules.table import TableModule
from hybrid_torchrec.table import HashTable


class FusedCollection(FusedOptimizerModule, nn.Module):
    """Collection whose backward is the optimizer's step."""

    table_type: type[TableModule] = TableModule
    _warned = False

    @abc.abstractmethod
    def tables(self) -> Mapping[str, TableModule]: ...

    @property
    def fused_optimizer(self) -> HashOptimizer:
        """Learning rates by table. Tables are made now, so apply_optimizer_in_backward must have been called."""
        tables = {name: table for name, table in self.named_modules() if isinstance(table, TableModule)}
        for table in tables.values():
            _ = table.parts
        return HashOptimizer(
            {f"{name}.weight": table.weight for name, table in tables.items()},
            [table.group for table in tables.values()],
        )

    def _warn_if_alone(self) -> None:
        """Without gradients of tables, data parallelism cannot keep the ranks' copies equal."""
        if self.training and not self._warned and dist.is_initialized() and dist.get_world_size() > 1:
            self._warned = True
            warnings.warn(
                f"{type(self).__name__} is not sharded, so each of the {dist.get_world_size()} ranks trains tables of "
                "its own; shard it: DistributedModelParallel(model, sharders=get_default_hybrid_sharders())",
                RuntimeWarning,
                stacklevel=3,
            )


class TableDict(nn.ModuleDict):
    """ModuleDict that takes the names of its own methods too: "items" is what many a table is called."""

    def add_module(self, name: str, module: nn.Module | None) -> None:
        if not name or "." in name:
            raise ValueError(f"{name!r} cannot be a table's name: it is part of parameter names, so no dots")
        self._modules[name] = module


def check_names(configs: Sequence[HashConfig]) -> None:
    """Gives tables without features one of their own name, as torchrec does; raises on names that occur twice."""
    seen = set()
    for config in configs:
        if config.name in seen:
            raise ValueError(f"Duplicate table name {config.name}")
        seen.add(config.name)
        if not config.feature_names:
            config.feature_names = [config.name]


def hash_tables(model: nn.Module) -> dict[str, list[HashTable]]:
    """The hash tables of this process, by the name of their TableModule in the model; made if they are not yet."""
    return {
        name: [part.table for part in module.parts]
        for name, module in model.named_modules()
        if isinstance(module, TableModule)
    }


@contextmanager
def accumulate_gradients(model: nn.Module) -> Iterator[None]:
    """Backward passes inside only add up gradients of hash tables; the next one outside makes the step with the sum.

    As DistributedDataParallel.no_sync() for dense parameters:

        with accumulate_gradients(model):
            model(first).backward()
        model(second).backward()
    """
    tables = [table for parts in hash_tables(model).values() for table in parts]
    before = [table.accumulate for table in tables]
    for table in tables:
        table.accumulate = True
    try:
        yield
    finally:
        for table, value in zip(tables, before):
            table.accumulate = value
