"""RowBatch: rows of a table with all that belongs to them, as they go between tiers, checkpoints and streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True, kw_only=True)
class RowBatch:
    """R rows; all tensors on one device.

    ids (R,) int64, distinct; weights (R, D) in the table's dtype; state: name -> (R,) or (R, D) float32; shows (R,) and
    clicks (R,) float32, decayed to last_step (R,) int64, the step of the last sighting.
    """

    ids: torch.Tensor
    weights: torch.Tensor
    state: Mapping[str, torch.Tensor]
    shows: torch.Tensor
    clicks: torch.Tensor
    last_step: torch.Tensor

    def __post_init__(self) -> None:
        rows = self.ids.shape[0]
        for name, tensor in self.named_tensors().items():
            if tensor.dim() < 1 or tensor.shape[0] != rows:
                raise ValueError(f"RowBatch: {name} has shape {tuple(tensor.shape)}, but there are {rows} ids")

    def __len__(self) -> int:
        return self.ids.shape[0]

    def __getitem__(self, rows: slice) -> RowBatch:
        """A view of some rows."""
        return self._map(lambda tensor: tensor[rows])

    @property
    def dim(self) -> int:
        return self.weights.shape[1]

    def named_tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor by its name, state as 'state.<name>'; the inverse of from_named_tensors."""
        state = {f"state.{name}": tensor for name, tensor in self.state.items()}
        return {
            "ids": self.ids,
            "weights": self.weights,
            **state,
            "shows": self.shows,
            "clicks": self.clicks,
            "last_step": self.last_step,
        }

    @staticmethod
    def from_named_tensors(tensors: Mapping[str, torch.Tensor]) -> RowBatch:
        state = {name.removeprefix("state."): t for name, t in tensors.items() if name.startswith("state.")}
        return RowBatch(state=state, **{name: t for name, t in tensors.items() if not name.startswith("state.")})

    @staticmethod
    def empty(
        dim: int,
        state: Mapping[str, int],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> RowBatch:
        """No rows. state: name -> columns, 0 for one number a row (OptimizerSpec.state_widths)."""
        shapes = {name: (0, width) if width else (0,) for name, width in state.items()}
        return RowBatch(
            ids=torch.empty(0, dtype=torch.int64, device=device),
            weights=torch.empty((0, dim), dtype=dtype, device=device),
            state={name: torch.empty(shape, device=device) for name, shape in shapes.items()},
            shows=torch.empty(0, device=device),
            clicks=torch.empty(0, device=device),
            last_step=torch.empty(0, dtype=torch.int64, device=device),
        )

    @staticmethod
    def concat(batches: Sequence[RowBatch]) -> RowBatch:
        """Rows of all batches, at least one, in their order."""
        if not batches:
            raise ValueError("RowBatch.concat: nothing to join; use RowBatch.empty")
        parts = [batch.named_tensors() for batch in batches]
        return RowBatch.from_named_tensors({name: torch.cat([part[name] for part in parts]) for name in parts[0]})

    def select(self, index: torch.Tensor | slice) -> RowBatch:
        """Rows at index: (K,) int64 positions, a mask (R,) bool, or a slice, which copies nothing."""
        if isinstance(index, slice):
            return self._map(lambda tensor: tensor[index])
        at = index.nonzero().squeeze(1) if index.dtype == torch.bool else index
        at = at.to(self.ids.device)
        return self._map(lambda tensor: tensor.index_select(0, at))  # a fifth of the time of tensor[at] on a CPU

    def columns(self, first: int, width: int) -> RowBatch:
        """Columns [first, first + width) of the rows; state of one number a row stays whole."""
        if width == self.dim:
            return self
        columns = slice(first, first + width)
        state = {name: tensor[:, columns] if tensor.dim() > 1 else tensor for name, tensor in self.state.items()}
        return replace(self, weights=self.weights[:, columns], state=state)

    def to(self, device: torch.device | str) -> RowBatch:
        return self._map(lambda tensor: tensor.to(device))

    def sorted_by_id(self) -> RowBatch:
        """In ascending order of the signed ids."""
        return self.select(torch.argsort(self.ids))

    def _map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> RowBatch:
        return RowBatch.from_named_tensors({name: change(tensor) for name, tensor in self.named_tensors().items()})
