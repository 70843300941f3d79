"""One table by PyTorch's operators on any device; what a device has itself overrides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hybrid_torchrec import host_copies
from hybrid_torchrec.backends import torch_rows
from hybrid_torchrec.backends.base import Admission, Backend, BackendGroup, Gradient
from hybrid_torchrec.backends.ids import IdTable
from hybrid_torchrec.backends.storage import RowStorage
from hybrid_torchrec.table_config import TableConfig


class TorchBackend:
    """Ids on the CPU, rows on `device` by PyTorch's operators."""

    def __init__(self, config: TableConfig, device: torch.device, ids: IdTable | None = None) -> None:
        """ids: of the table; None: on the CPU."""
        self.config = config
        self.ids = IdTable(config) if ids is None else ids
        self.storage = RowStorage(config, device)
        self.storage.grow(1 + config.initial_capacity)
        default = config.initializer.default_row(config.dim, config.seed)
        self.storage.set_new(torch.zeros(1, dtype=torch.int64), default.unsqueeze(0))

    @property
    def kind(self) -> TableConfig | None:
        return None

    def admit(self, ids: torch.Tensor, step: int) -> Admission:
        slots, new, shows = self.ids.admit(ids, step)
        return HostAdmission(self, ids, slots, new, shows, step)

    def insert_new(self, new: torch.Tensor, shows: torch.Tensor, step: int) -> None:
        """Rows of distinct ids (N,) that are absent and were seen shows (N,) times."""
        slots = self.ids.index.insert(new, shows, step)
        self.storage.grow(self.ids.index.slots())
        initializer = self.config.initializer
        first = self.config.first_key + self.ids.insertions
        self.start(slots, new if initializer.per_id else torch.arange(first, first + len(new)))
        self.ids.insertions += len(new)

    def start(self, slots: torch.Tensor, keys: torch.Tensor) -> None:
        """First values of new rows of slots (R,), keys (R,), both int64 on the CPU; their state becomes zero."""
        self.storage.set_new(slots, self.config.initializer.rows(keys, self.config.dim, self.config.seed))

    def gather(self, slots: torch.Tensor) -> torch.Tensor:
        return torch_rows.gather(self.storage.weights, slots)

    def pool(
        self, slots: torch.Tensor, offsets: torch.Tensor, mean: bool, samples: torch.Tensor | None
    ) -> torch.Tensor:
        return torch_rows.pool(self.storage.weights, slots, offsets, mean, samples)

    def sample_weight_gradients(
        self, slots: torch.Tensor, offsets: torch.Tensor, gradients: torch.Tensor, mean: bool
    ) -> torch.Tensor:
        return torch_rows.sample_weight_gradients(self.storage.weights, slots, offsets, gradients, mean)

    def update(self, gradient: Gradient, lr: float, iteration: int) -> None:
        slots, sums = torch_rows.aggregate(
            gradient.slots, gradient.values, gradient.offsets, gradient.mean, gradient.samples
        )
        spec = self.config.optimizer
        torch_rows.update(self.storage.weights, self.storage.state, slots, sums, spec, lr, iteration, self._rounding)
        self.ids.index.mark_changed(host_copies.on_host(slots))

    def group(self, peers: Sequence[Backend]) -> BackendGroup:
        raise ValueError(f"tables on {self.storage.weights.device} have no launches to share")

    @property
    def _rounding(self) -> int | None:
        """The seed of stochastic rounding; None: to nearest."""
        return self.config.seed if self.config.stochastic_rounding else None


@dataclass(frozen=True)
class HostAdmission:
    """A batch whose ids were looked up on the CPU."""

    backend: TorchBackend
    ids: torch.Tensor  # (L,)
    slots: torch.Tensor  # (L,)
    new: torch.Tensor  # (N,) distinct, that get a row
    shows: torch.Tensor  # (N,)
    step: int

    @property
    def rows_needed(self) -> int:
        return len(self.new)

    def insert(self) -> torch.Tensor:
        if len(self.new):
            self.backend.insert_new(self.new, self.shows, self.step)
        return self.backend.ids.index.resolve(self.ids, self.slots)

    def cancel(self) -> None:
        """The index knows nothing of the new ids yet; their sightings stay counted."""
