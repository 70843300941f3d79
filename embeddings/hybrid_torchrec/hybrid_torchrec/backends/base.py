"""What a table asks of its device: ids to slots, lookups of rows, and their updates.

``Backend`` is all that the rest of the package knows of a device; choice.py has the back ends. A back end takes data
from its table and never calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from hybrid_torchrec.backends.ids import IdTable
from hybrid_torchrec.backends.storage import RowStorage
from hybrid_torchrec.table_config import TableConfig


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """slots (L,) int64 and values (L, D), or with offsets (B + 1,) values (B, D) of pooled bags.

    mean: bags were averaged. samples: (L,), the factors of the slots.
    """

    slots: torch.Tensor
    values: torch.Tensor
    offsets: torch.Tensor | None = None
    mean: bool = False
    samples: torch.Tensor | None = None


class Admission(Protocol):
    """A training batch whose sightings are counted; the ids that are to get a row have none yet.

    ``insert`` or ``cancel`` must follow, before any other change of the table.
    """

    @property
    def slots(self) -> torch.Tensor:
        """(L,) int64 on the ids' device; negative for ids without a row."""
        ...

    @property
    def rows_needed(self) -> int:
        """Rows for which there must be room before ``insert``; 0 where the back end knows that there is."""
        ...

    def insert(self) -> torch.Tensor:
        """Makes the rows, with their first values; slots of the batch (L,), 0 for ids that are not admitted."""
        ...

    def cancel(self) -> None:
        """There is no room: nothing is inserted."""
        ...


class Backend(Protocol):
    """The ids and the rows of one table on one device. All tensors of slots (L,) are int64."""

    @property
    def config(self) -> TableConfig: ...

    @property
    def ids(self) -> IdTable: ...

    @property
    def storage(self) -> RowStorage:
        """With the default row in slot 0."""
        ...

    @property
    def kind(self) -> TableConfig | None:
        """Equal for tables of a device that can share launches (``group``); None: this one cannot."""
        ...

    def admit(self, ids: torch.Tensor, step: int) -> Admission:
        """Counts a sighting of each of ids (L,) on the ids' device, in training step `step`."""
        ...

    def gather(self, slots: torch.Tensor) -> torch.Tensor:
        """Rows (L, D) float32."""
        ...

    def pool(
        self, slots: torch.Tensor, offsets: torch.Tensor, mean: bool, samples: torch.Tensor | None
    ) -> torch.Tensor:
        """Bags of rows (B, D) float32: offsets (B + 1,) int64, samples (L,) their factors."""
        ...

    def sample_weight_gradients(
        self, slots: torch.Tensor, offsets: torch.Tensor, gradients: torch.Tensor, mean: bool
    ) -> torch.Tensor:
        """Gradients (L,) float32 of the factors of ``pool``, for gradients (B, D) of its result."""
        ...

    def update(self, gradient: Gradient, lr: float, iteration: int) -> None:
        """One optimizer step of each distinct slot but 0; iteration: steps of the table with this one."""
        ...

    def group(self, peers: Sequence[Backend]) -> BackendGroup:
        """This table's kind in the launches of one; `peers`, with itself, have equal kinds and are on one device.

        Raises ValueError where the device has no such launches.
        """
        ...


class BackendGroup(Protocol):
    """Tables of equal kind in the launches of one. Elements are in the order of the tables, lengths[t] of table t."""

    def look_up(self, ids: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """Slots (L,) of ids (L,), 0 where absent; counts hits."""
        ...

    def can_insert(self, lengths: Sequence[int]) -> bool:
        """Whether ``insert`` needs nothing but launches: no eviction, growth of the tables' limits or host's count."""
        ...

    def insert(self, ids: torch.Tensor, lengths: Sequence[int], step: int) -> torch.Tensor:
        """A training batch: Backend.admit and Admission.insert of each; slots (L,)."""
        ...

    def gather(self, slots: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor: ...

    def pool(
        self,
        slots: torch.Tensor,
        offsets: torch.Tensor,
        bags: Sequence[int],
        mean: bool,
        samples: torch.Tensor | None,
    ) -> torch.Tensor:
        """bags[t]: of table t."""
        ...

    def sample_weight_gradients(
        self,
        slots: torch.Tensor,
        lengths: Sequence[int],
        offsets: torch.Tensor,
        gradients: torch.Tensor,
        mean: bool,
    ) -> torch.Tensor: ...

    def update(self, gradient: Gradient, lengths: Sequence[int], lr: float, iteration: int) -> None: ...
