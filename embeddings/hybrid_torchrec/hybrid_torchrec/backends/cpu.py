"""Lookup and fused update on the CPU by the kernels of csrc/rows."""

import torch

from hybrid_torchrec.backends.base import Gradient
from hybrid_torchrec.backends.torch import TorchBackend
from hybrid_torchrec.initializers import Distribution
from hybrid_torchrec.table_config import TableConfig


class CpuBackend(TorchBackend):
    """As TorchBackend, with the library's kernels for the rows."""

    def __init__(self, config: TableConfig, device: torch.device) -> None:
        super().__init__(config, device)
        self._ops = torch.ops.hybrid_torchrec

    def gather(self, slots: torch.Tensor) -> torch.Tensor:
        return self._ops.gather_rows(self.storage.weights, slots)

    def pool(
        self, slots: torch.Tensor, offsets: torch.Tensor, mean: bool, samples: torch.Tensor | None
    ) -> torch.Tensor:
        return self._ops.pool_rows(self.storage.weights, slots, offsets, mean, samples)

    def sample_weight_gradients(
        self, slots: torch.Tensor, offsets: torch.Tensor, gradients: torch.Tensor, mean: bool
    ) -> torch.Tensor:
        return self._ops.sample_weight_gradients(self.storage.weights, slots, offsets, gradients, mean)

    def update(self, gradient: Gradient, lr: float, iteration: int) -> None:
        spec, state, index = self.config.optimizer, self.storage.state, self.ids.index
        self._ops.update_rows(
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
            self._rounding,
            index.versions(),
            index.version(),
        )

    def start(self, slots: torch.Tensor, keys: torch.Tensor) -> None:
        initializer = self.config.initializer
        if not isinstance(initializer, Distribution):
            super().start(slots, keys)
            return
        state = list(self.storage.state.values())
        self._ops.start_rows(
            self.storage.weights, state, slots, keys, initializer.kind, *initializer.parameters(), self.config.seed
        )
