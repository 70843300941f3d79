"""Values and optimizer state of a table's rows, by slot."""

import math

import torch

from hybrid_torchrec import host_copies
from hybrid_torchrec.row_batch import RowBatch
from hybrid_torchrec.table_config import TableConfig


class RowStorage:
    """weights (C, D) in the table's dtype and state: name -> (C,) or (C, D) float32, for C slots.

    On the CPU the memory is extended in place, so that rows never move; elsewhere tensors are copied to larger ones.
    """

    def __init__(self, config: TableConfig, device: torch.device) -> None:
        self._config = config
        self._device = device
        self._widths = config.optimizer.state_widths(config.dim)
        self._memory = {}
        if device.type == "cpu":
            row_sizes = {"weights": config.dim * config.dtype.itemsize}
            row_sizes |= {name: 4 * max(width, 1) for name, width in self._widths.items()}
            rows = 0 if config.max_rows is None else config.max_rows + 1
            memory = torch.classes.hybrid_torchrec.RowMemory
            self._memory = {name: memory(rows * size) for name, size in row_sizes.items()}
        self.weights = torch.empty((0, config.dim), dtype=config.dtype, device=device)
        self.state = {name: torch.empty((0, w) if w else (0,), device=device) for name, w in self._widths.items()}

    @property
    def capacity(self) -> int:
        """Of the smallest tensor: memory may run short when some have grown."""
        return min(tensor.shape[0] for tensor in (self.weights, *self.state.values()))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row with its state."""
        state = sum(4 * max(width, 1) for width in self._widths.values())
        return self._config.dim * self._config.dtype.itemsize + state

    def grow(self, slots: int, *, exactly: bool = False) -> None:
        """Have at least `slots` slots, or exactly so many; the new ones' state is zero, their weights are to be set."""
        if slots <= self.capacity:
            return
        rows = slots if exactly else max(slots, self.capacity * 3 // 2 if self._memory else self.capacity * 2)
        if self._config.max_rows is not None:
            rows = max(slots, min(rows, self._config.max_rows + 1))
        self.weights = self._grown("weights", self.weights, rows, self._config.dim)
        for name, width in self._widths.items():
            self.state = {**self.state, name: self._grown(name, self.state[name], rows, width)}

    def _grown(self, name: str, old: torch.Tensor, rows: int, width: int) -> torch.Tensor:
        if old.shape[0] >= rows:
            return old
        if self._memory:
            grown = self._memory[name].tensor(rows, max(width, 1), old.dtype)
            return grown if width else grown.view(rows)
        grown = torch.zeros((rows, width) if width else (rows,), dtype=old.dtype, device=self._device)
        grown[: old.shape[0]] = old
        return grown

    def set_new(self, slots: torch.Tensor, values: torch.Tensor) -> None:
        """Rows that start: values (R, D) of any floating dtype; their state becomes zero."""
        slots = host_copies.to_device(slots, self._device)
        self.weights.index_copy_(0, slots, host_copies.to_device(values.to(self.weights.dtype), self._device))
        for tensor in self.state.values():
            tensor.index_fill_(0, slots, 0.0)

    def read(self, slots: torch.Tensor, *, shared: bool = False) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Copies of weights and state of slots (R,); shared: the rows themselves where they are side by side."""
        run = _as_slice(slots)
        if run is not None:
            take = _window if shared and self._memory else torch.Tensor.clone
            return take(self.weights[run]), {name: take(tensor[run]) for name, tensor in self.state.items()}
        if self._memory:
            weights, *state = torch.ops.hybrid_torchrec.take_rows([self.weights, *self.state.values()], slots)
            return weights, dict(zip(self.state, state))
        slots = slots.to(self._device)
        return self.weights.index_select(0, slots), {n: t.index_select(0, slots) for n, t in self.state.items()}

    def write(self, slots: torch.Tensor, rows: RowBatch) -> None:
        run = _as_slice(slots)
        if run is not None:
            self.weights[run] = rows.weights.to(self._device)
            for name, tensor in self.state.items():
                tensor[run] = rows.state[name].to(self._device)
            return
        if self._memory:
            columns = [rows.weights, *(rows.state[name] for name in self.state)]
            given = [column.to(self._device) for column in columns]
            torch.ops.hybrid_torchrec.put_rows([self.weights, *self.state.values()], slots, given)
            return
        slots = slots.to(self._device)
        self.weights.index_copy_(0, slots, rows.weights.to(self._device))
        for name, tensor in self.state.items():
            tensor.index_copy_(0, slots, rows.state[name].to(self._device))

    def check(self, rows: RowBatch) -> None:
        """Raises ValueError where rows do not fit the table."""
        where = f"table '{self._config.name}'"
        if rows.weights.dtype != self.weights.dtype or rows.weights.shape[1:] != self.weights.shape[1:]:
            raise ValueError(
                f"{where} holds rows of {self._config.dim} x {self.weights.dtype}, got "
                f"{math.prod(rows.weights.shape[1:])} x {rows.weights.dtype}"
            )
        if rows.state.keys() != self.state.keys():
            raise ValueError(
                f"{where} has the state {sorted(self.state)} of {self._config.optimizer.kind}, "
                f"got {sorted(rows.state)}; save and load with the same kind of optimizer"
            )
        for name, tensor in self.state.items():
            given = rows.state[name]
            if given.shape[1:] != tensor.shape[1:] or given.dtype != tensor.dtype:
                raise ValueError(f"{where}: state {name} of shape {tuple(given.shape)}, {given.dtype} does not fit")


def _window(rows: torch.Tensor) -> torch.Tensor:
    """The same memory as a tensor with a storage of its own size: torch's savers copy out of larger ones."""
    return torch.from_numpy(rows.view(torch.uint8).numpy()).view(rows.dtype)


def _as_slice(slots: torch.Tensor) -> slice | None:
    """Of slots (R,) on the CPU that follow one another, as those of rows that came together do: one copy for all."""
    count = len(slots)
    if count < 2 or slots.device.type != "cpu" or int(slots[-1]) - int(slots[0]) != count - 1:
        return None
    first = int(slots[0])
    return slice(first, first + count) if bool((slots[1:] > slots[:-1]).all()) else None
