"""Lookup and fused update on the CPU by the kernels of csrc/rows."""

from dataclasses import dataclass, field

import torch

from hybrid_torchrec.backends.ids import IdTable
from hybrid_torchrec.backends.storage import RowStorage
from hybrid_torchrec.backends.torch import Gradient
from hybrid_torchrec.initializers import Distribution
from hybrid_torchrec.table_config import TableConfig


@dataclass
class CpuBackend:
    config: TableConfig
    storage: RowStorage
    ops: torch._ops._OpNamespace = field(default_factory=lambda: torch.ops.hybrid_torchrec)
    kind = None

    def gather(self, slots: torch.Tensor) -> torch.Tensor:
        return self.ops.gather_rows(self.storage.weights, slots)

    def pool(
        self, slots: torch.Tensor, offsets: torch.Tensor, mean: bool, samples: torch.Tensor | None
    ) -> torch.Tensor:
        return self.ops.pool_rows(self.storage.weights, slots, offsets, mean, samples)

    def sample_weight_gradients(
        self, slots: torch.Tensor, offsets: torch.Tensor, gradients: torch.Tensor, mean: bool
    ) -> torch.Tensor:
        return self.ops.sample_weight_gradients(self.storage.weights, slots, offsets, gradients, mean)

    def update(self, gradient: Gradient, lr: float, iteration: int, ids: IdTable) -> None:
        spec = self.config.optimizer
        state = self.storage.state
        rounding = self.config.seed if self.config.stochastic_rounding else None
        self.ops.update_rows(
            self.storage.weights,
            state.get("momentum1"),
            state.get("momentum2"),
            gradient.slots,
            gradient.values,
            gradient.offsets,
            gradient.mean,
            gradient.samples,
            spec.number,
            lr,
            spec.epsilon,
            *spec.betas,
            spec.weight_decay,
            iteration,
            rounding,
            ids.index.versions(),
            ids.index.version(),
        )

    def start(self, slots: torch.Tensor, keys: torch.Tensor) -> None:
        initializer = self.config.initializer
        if not isinstance(initializer, Distribution):
            self.storage.set_new(slots, initializer.rows(keys, self.config.dim, self.config.seed))
            return
        state = list(self.storage.state.values())
        self.ops.start_rows(
            self.storage.weights, state, slots, keys, initializer.kind, *initializer.parameters(), self.config.seed
        )
