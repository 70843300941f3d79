"""A table of a collection: its hash tables, and the parameter through which torchrec and optimizers see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed._shard.sharded_tensor import ShardedTensor
from torch.distributed.optim.apply_optimizer_in_backward import param_to_optim_hook_handle_map

from hybrid_torchrec.host_copies import picked
from hybrid_torchrec.modules import state
from hybrid_torchrec.modules.config import HashConfig, check, dtype_of, table_config
from hybrid_torchrec.modules.optimizer import choose_spec
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.table import HashTable, TableConfig
from hybrid_torchrec.table.copying import copy_of


@dataclass(frozen=True)
class Lookup:
    """Slots of ids, as of one moment of their table."""

    ids: Tensor  # (L,) int64
    slots: Tensor  # (L,) int64
    train: bool
    moves: int  # of the table until then


class TablePart:
    """Columns [column, column + D) of a table, and those of its ids that live in this process."""

    def __init__(self, table: HashTable, column: int, owner: TableModule) -> None:
        self.table = table
        self.column = column
        self._owner = owner

    def assign(self, ids: Tensor, *, train: bool, occurrences: Tensor | None = None) -> Lookup:
        """occurrences (L,): how often each of `ids` was seen, where they stand for more than themselves."""
        if occurrences is not None and train:
            # Zero occurrences do not exist, so the last of each is its own.
            every = self.table.assign(ids.repeat_interleave(occurrences), train=True)
            slots = picked(every, occurrences.cumsum(0) - 1)
        else:
            slots = self.table.assign(ids, train=train)
        self.after_assign(train)
        return Lookup(ids, slots, train, self.table.moves)

    def after_assign(self, train: bool) -> None:
        if train and not self.trains:
            self.table.apply_gradients()  # none will come: a cached table need not keep the rows for them

    @property
    def trains(self) -> bool:
        return self._owner.weight.requires_grad

    def take_rate(self) -> None:
        """The learning rate is that of the table's parameter group now."""
        self.table.learning_rate = float(self._owner.group["lr"])

    def update(self, lookup: Lookup, grads: Tensor, **pooled: Any) -> None:
        """One step with the gradients of the rows, unless gradients are accumulated or the table does not train."""
        if not lookup.train or not self.trains:
            return
        self.take_rate()
        self.table.update(self.slots_now(lookup), grads, apply=not self.table.accumulate, **pooled)

    def slots_now(self, lookup: Lookup) -> Tensor:
        """Where a later forward pass has evicted rows, their slots belong to other ids; slot 0 is never updated."""
        if lookup.moves == self.table.moves:
            return lookup.slots
        return self.table.find(lookup.ids).clamp(min=0)


class TableModule(nn.Module):
    """One table of an (un)sharded collection.

    `weight` is an empty parameter (0, D): optimizers are applied to it, autograd finds its way through it, and
    `requires_grad_(False)` freezes the table. The rows are in `parts`, and are made at first use, on the device on
    which `weight` is then: one part with all columns where the table is not sharded, else one for each of its column
    shards of which this rank has ids.
    """

    def __init__(self, config: HashConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        check(config)
        self.config = config
        self.dtype = dtype_of(config)
        self.weight = nn.Parameter(torch.empty(0, config.embedding_dim, dtype=self.dtype, device=device))
        self.group: dict[str, Any] = {"params": [self.weight], "name": config.name, "lr": 0.0}
        self._parts: list[TablePart] = []

    @property
    def parts(self) -> list[TablePart]:
        if not self._parts:
            try:
                self._make_whole()
            except AttributeError as error:  # of a property it would say that the module has no such attribute
                raise RuntimeError(f"table {self.config.name} cannot be made: {error}") from error
        return self._parts

    @property
    def whole(self) -> TablePart:
        """The only part of a table that is not sharded."""
        return self.parts[0]

    @property
    def made(self) -> bool:
        return bool(self._parts)

    @property
    def counts_occurrences(self) -> bool:
        """Whether admission or eviction depend on how often an id occurs in a batch."""
        by_count = self.config.eviction is not None and self.config.eviction.counts_occurrences
        return by_count or self.config.admission.sightings > 1

    def spec(self, fused_params: Mapping[str, Any] | None = None) -> OptimizerSpec:
        return choose_spec(self.weight, fused_params, self.config.optimizer, self.config.name)

    def add_part(self, config: TableConfig, column: int, device: torch.device) -> None:
        self._parts.append(TablePart(HashTable(config, device), column, self))

    def set_rate(self, spec: OptimizerSpec) -> None:
        """The group of the optimizer that was applied in backward, so that its schedulers go on working, or our own."""
        for optimizer in getattr(self.weight, "_in_backward_optimizers", []):
            if getattr(optimizer, "param_groups", None):
                self.group = optimizer.param_groups[0]
        self.group["lr"] = spec.lr
        self.group.setdefault("name", self.config.name)

    def _make_whole(self) -> None:
        device = self.weight.device
        if device.type == "meta":
            raise RuntimeError(
                f"table {self.config.name} is on the meta device: shard it (DistributedModelParallel with "
                "get_default_hybrid_sharders()) or give the collection a device"
            )
        spec = self.spec()
        self.set_rate(spec)
        # The step is fused; torch's hooks would step over an empty parameter.
        for handle in param_to_optim_hook_handle_map.pop(self.weight, []):
            handle.remove()
        self.add_part(table_config(self.config, spec), 0, device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TableModule:
        """`to(device)` takes the rows along; they keep the config's type."""
        super()._apply(fn, recurse)
        for part in self._parts:
            old = part.table
            if old.device != self.weight.device and self.weight.device.type != "meta":
                part.table = copy_of(old, self.weight.device)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        table = self.whole.table
        destination.update({prefix + key: tensor for key, tensor in state.rows_to_state(table).items()})
        destination[prefix + state.CLOCK] = state.clock_of(table)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        table = self.whole.table
        keys = [*state.keys_of(table), state.CLOCK]
        missing = [prefix + key for key in keys if prefix + key not in state_dict]
        unexpected = state.unexpected(state_dict, prefix, (prefix + key for key in keys))
        missing_keys.extend(missing)
        unexpected_keys.extend(unexpected)
        refused = state.of_another_optimizer(unexpected, prefix, table.config)
        error_msgs.extend(refused)
        if missing or refused:
            return
        if isinstance(state_dict[prefix + "ids"], ShardedTensor):
            error_msgs.append(
                f"{prefix}: a table that is not sharded cannot load the shards of several ranks; load them into a "
                "sharded model"
            )
            return
        rows = state.rows_from_state({key: state_dict[prefix + key] for key in keys if key != state.CLOCK})
        try:
            state.replace_rows(table, rows, state_dict[prefix + state.CLOCK])
        except ValueError as error:  # the table has its rows still
            error_msgs.append(f"{prefix}: {error}")

    def extra_repr(self) -> str:
        rows = sum(len(part.table) for part in self._parts)
        return f"{self.config.name}, dim={self.config.embedding_dim}, {self.dtype}, rows={rows}"
