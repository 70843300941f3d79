"""Lookup and fused update of one table by PyTorch's operators on any device; what a device has itself overrides it."""

from dataclasses import dataclass

import torch

from hybrid_torchrec.backends import torch_rows
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


@dataclass
class GenericBackend:
    """PyTorch's operators."""

    config: TableConfig
    storage: RowStorage

    @property
    def kind(self) -> TableConfig | None:
        """Equal for tables of a device that can share launches (backends/cuda/group.py); None: this one cannot."""
        return None

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

    def update(self, gradient: Gradient, lr: float, iteration: int, ids: IdTable) -> None:
        slots, sums = torch_rows.aggregate(
            gradient.slots, gradient.values, gradient.offsets, gradient.mean, gradient.samples
        )
        spec = self.config.optimizer
        rounding = self.config.seed if self.config.stochastic_rounding else None
        torch_rows.update(self.storage.weights, self.storage.state, slots, sums, spec, lr, iteration, rounding)
        ids.index.mark_changed(slots.cpu())

    def start(self, slots: torch.Tensor, keys: torch.Tensor) -> None:
        """First values of new rows of slots (R,), keys (R,), both int64 on the CPU; their state becomes zero."""
        self.storage.set_new(slots, self.config.initializer.rows(keys, self.config.dim, self.config.seed))
