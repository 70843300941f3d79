"""Lookup and fused update on an NPU by gr_ops' operators on static tables: here one table, whose rows are the slots."""

import importlib
import importlib.util

import torch

from hybrid_torchrec import host_copies
from hybrid_torchrec.backends.base import Gradient
from hybrid_torchrec.backends.torch import TorchBackend
from hybrid_torchrec.kinds import GR_OPS_NUMBERS, OPTIMIZERS
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.table_config import TableConfig

SUM, MEAN, NONE = 0, 1, 2
# The optimizers that mxrec.embedding_update has, with its numbers; the steps of others are PyTorch's operators.
KINDS = {name: GR_OPS_NUMBERS[kind.gr_ops] for name, kind in OPTIMIZERS.items() if kind.gr_ops is not None}
WHOLE_ROW = 1920  # columns; row-wise Adagrad and gradients of factors need them all in a vector core


def available(device: torch.device) -> bool:
    """Whether gr_ops' kernels for NPU tensors are there; loads them."""
    if device.type != "npu" or importlib.util.find_spec("gr_ops") is None:
        return False
    gr_ops = importlib.import_module("gr_ops")
    gr_ops.load()
    return bool(gr_ops.npu_loaded())


def supports(spec: OptimizerSpec, dim: int) -> bool:
    """Whether the update operator does what the optimizer says; what it does not is left to PyTorch's operators."""
    if spec.kind not in KINDS or (spec.weight_decay and spec.traits.decay_is_gradient):
        return False
    return not spec.traits.whole_rows or dim <= WHOLE_ROW


class NpuBackend(TorchBackend):
    """As TorchBackend, with gr_ops where it has the operator."""

    def __init__(self, config: TableConfig, device: torch.device) -> None:
        super().__init__(config, device)
        dim = config.dim
        self._start = torch.zeros(1, dtype=torch.int64, device=device)
        self._columns = torch.tensor([0, dim], dtype=torch.int32, device=device)
        self._row_space = (0, self._start)  # rows, and the tensor that tells the operators of them
        rounds = config.stochastic_rounding and config.dtype != torch.float32
        self._fused = supports(config.optimizer, dim) and not rounds

    def _rows(self) -> torch.Tensor:
        """Cumulated sizes of the row space."""
        if self._row_space[0] != self.storage.capacity:
            sizes = torch.tensor([0, self.storage.capacity], dtype=torch.int64)
            self._row_space = self.storage.capacity, host_copies.to_device(sizes, self.storage.weights.device)
        return self._row_space[1]

    def _pool(
        self, slots: torch.Tensor, offsets: torch.Tensor, mode: int, samples: torch.Tensor | None
    ) -> torch.Tensor:
        dim = self.config.dim
        factors = None if samples is None else samples.float()
        return torch.ops.mxrec.embedding_pool(
            self.storage.weights.view(-1),
            self._start,
            self._columns,
            dim,
            dim,
            self._rows(),
            slots,
            offsets,
            mode,
            factors,
            0,
        )

    def gather(self, slots: torch.Tensor) -> torch.Tensor:
        return self._pool(slots, _each(slots), NONE, None)

    def pool(
        self, slots: torch.Tensor, offsets: torch.Tensor, mean: bool, samples: torch.Tensor | None
    ) -> torch.Tensor:
        return self._pool(slots, offsets, MEAN if mean else SUM, samples)

    def update(self, gradient: Gradient, lr: float, iteration: int) -> None:
        slots = gradient.slots
        if not self._fused or slots.shape[0] == 0:
            return super().update(gradient, lr, iteration)
        storage, spec = self.storage, self.config.optimizer
        tensors = [storage.weights, *storage.state.values()]
        default = [tensor[0].clone() for tensor in tensors]
        state = {name: tensor.view(-1) for name, tensor in storage.state.items()}
        if gradient.offsets is None:
            offsets, mode = _each(slots), NONE
        else:
            offsets, mode = gradient.offsets, MEAN if gradient.mean else SUM
        samples = None if gradient.samples is None else gradient.samples.float()
        torch.ops.mxrec.embedding_update(
            gradient.values.contiguous(),
            storage.weights.view(-1),
            self._start,
            self._columns,
            self.config.dim,
            self._rows(),
            storage.capacity.bit_length(),
            slots,
            offsets,
            mode,
            samples,
            None,
            False,
            -1.0,
            KINDS[spec.kind],
            state.get("momentum1"),
            self._start if "momentum1" in state else None,
            state.get("momentum2"),
            self._start if "momentum2" in state else None,
            lr,
            spec.epsilon,
            *spec.betas,
            spec.weight_decay,
            0,
            0.0,
            iteration,
        )
        # The default row may be among the slots, and learns nothing.
        for tensor, row in zip(tensors, default, strict=True):
            tensor[0] = row
        self.ids.index.mark_changed(host_copies.on_host(slots))
        return None


def _each(slots: torch.Tensor) -> torch.Tensor:
    """Offsets of bags of one slot."""
    return torch.arange(slots.shape[0] + 1, dtype=torch.int64, device=slots.device)
