"""One table on a CUDA device by Triton kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from hybrid_torchrec.backends.base import Admission, Backend, BackendGroup, Gradient
from hybrid_torchrec.backends.cuda import id_launches, row_launches
from hybrid_torchrec.backends.cuda.group import CudaGroup
from hybrid_torchrec.backends.cuda.ids import DeviceIdTable
from hybrid_torchrec.backends.cuda.insertion import NewRows, PendingInsertion
from hybrid_torchrec.backends.cuda.layout import constants
from hybrid_torchrec.backends.cuda.normal_quantile import POLYNOMIALS, THRESHOLDS
from hybrid_torchrec.backends.cuda.sorted_slots import SortedSlots, sort
from hybrid_torchrec.backends.torch import TorchBackend
from hybrid_torchrec.initializers import Distribution
from hybrid_torchrec.table_config import TableConfig

WEIGHTS, SEED = constants("WEIGHTS", "SEED")


class CudaBackend(TorchBackend):
    """Ids and rows on the device. host_ids: ids are looked up on the CPU."""

    def __init__(self, config: TableConfig, device: torch.device, *, host_ids: bool = False) -> None:
        self.device_ids = None if host_ids else DeviceIdTable(config, device)
        super().__init__(config, device, self.device_ids)
        initializer = config.initializer
        self.numbers: torch.Tensor | None = None
        if isinstance(initializer, Distribution):
            numbers = [*initializer.parameters(), *THRESHOLDS, *POLYNOMIALS]
            self.numbers = torch.tensor(numbers, dtype=torch.float64).to(device)
        self._parts: torch.Tensor | None = None
        self._sorted: SortedSlots | None = None  # of the last batch, whose update is likely to follow
        self._known: torch.Tensor | None = None  # the index's addresses and those of the rows, of which `_parts` is
        self._rows_at: list[int] = []
        self._keeps_spare = True
        rounds = config.stochastic_rounding and config.dtype != torch.float32
        whole = config.optimizer.traits.whole_rows and config.dim > row_launches.WIDEST
        self._fused = not rounds and not whole

    @property
    def kind(self) -> TableConfig | None:
        initializer = self.config.initializer
        if self.device_ids is None or self.numbers is None or not initializer.per_id or not self._fused:
            return None
        return replace(
            self.config,
            name="",
            seed=0,
            first_key=0,
            initial_capacity=0,
            max_rows=None,
            eviction=None,
            initializer=type(initializer)(),
        )

    def parts(self) -> torch.Tensor:
        """(1, PARTS): the addresses of the table's tensors as they are now."""
        storage = self.storage
        known = None if self.device_ids is None else self.device_ids.index.parts
        rows_at = [tensor.data_ptr() for tensor in (storage.weights, *storage.state.values())]
        if self._parts is None or known is not self._known or rows_at != self._rows_at:
            seed = self.config.seed % 2**64
            words = [0] * WEIGHTS + [*rows_at, *[0] * (SEED - WEIGHTS - len(rows_at))]
            parts = id_launches.parts_tensor([*words, seed - 2**64 if seed >= 2**63 else seed], storage.weights.device)
            if known is not None:
                parts[:, :WEIGHTS] = known[:, :WEIGHTS]
            self._parts, self._known, self._rows_at = parts, known, rows_at
        return self._parts

    def admit(self, ids: torch.Tensor, step: int) -> Admission:
        if self.device_ids is None or not self.device_ids.admits_all:
            return super().admit(ids, step)
        has_room = self.has_room(len(ids))
        pending = self.device_ids.index.find_or_insert(ids)
        return DeviceAdmission(self, self.device_ids, pending, step, 0 if has_room else pending.count(), has_room)

    def has_room(self, new: int) -> bool:
        """Whether `new` more rows fit, where ids are on the device. Room is made ahead, so that nobody waits to know;
        the host waits for all that the device was given near max_rows, and where memory is short."""
        assert self.device_ids is not None
        index = self.device_ids.index
        if index.surely_has_room(new):
            return True
        spare = index.spare_for(new) if self._keeps_spare else 0
        if spare:
            try:
                self.storage.grow(spare, exactly=True)
                index.grow(spare)
            except torch.OutOfMemoryError:
                self._keeps_spare = False
        return index.has_room(new)

    def gather(self, slots: torch.Tensor) -> torch.Tensor:
        return row_launches.gather(self.config, self.parts(), slots)

    def pool(
        self, slots: torch.Tensor, offsets: torch.Tensor, mean: bool, samples: torch.Tensor | None
    ) -> torch.Tensor:
        return row_launches.pool(self.config, self.parts(), slots, offsets, mean, samples)

    def sample_weight_gradients(
        self, slots: torch.Tensor, offsets: torch.Tensor, gradients: torch.Tensor, mean: bool
    ) -> torch.Tensor:
        return row_launches.factor_gradients(self.config, self.parts(), slots, offsets, gradients, mean)

    def update(self, gradient: Gradient, lr: float, iteration: int) -> None:
        if not self._fused:
            super().update(gradient, lr, iteration)
            return
        slots = gradient.slots
        if len(slots) == 0:
            return
        sorted_slots = self._sorted
        if sorted_slots is None or not sorted_slots.matches(slots):
            sorted_slots = sort(slots, self.storage.capacity.bit_length())
        version = None if self.device_ids is None else self.device_ids.index.version()
        row_launches.update(self.config, self.parts(), sorted_slots, gradient, lr, iteration, version)
        if self.device_ids is None:
            self.ids.index.mark_changed(slots.cpu())

    def group(self, peers: Sequence[Backend]) -> BackendGroup:
        mine = [peer for peer in peers if isinstance(peer, CudaBackend)]
        if len(mine) < len(peers):
            raise ValueError("only tables of CUDA devices share their launches")
        return CudaGroup(mine)

    def start(self, slots: torch.Tensor, keys: torch.Tensor) -> None:
        if self.numbers is None or len(slots) == 0:
            super().start(slots.cpu(), keys.cpu())
            return
        device = self.storage.weights.device
        row_launches.start(self.config, self.numbers, self.parts(), keys.to(device), slots.to(device), counted=False)

    def start_new(self, rows: NewRows, sorted_slots: SortedSlots) -> None:
        """Values of rows that were placed for a batch. By id, the host need not know how many they are."""
        self._sorted = sorted_slots
        initializer = self.config.initializer
        if self.numbers is not None and initializer.per_id:
            row_launches.start(self.config, self.numbers, self.parts(), rows.ids, rows.slots, counted=True)
            return
        new = rows.count()
        first = self.config.first_key + self.ids.insertions - new
        keys = rows.ids[:new] if initializer.per_id else torch.arange(first, first + new)
        self.start(rows.slots[:new], keys)


@dataclass(frozen=True)
class DeviceAdmission:
    """A batch whose new ids have keys in the device's map, and no slots."""

    backend: CudaBackend
    known: DeviceIdTable
    pending: PendingInsertion
    step: int
    rows_needed: int
    has_room: bool  # for as many rows as the batch has ids, which the host need not count then

    @property
    def slots(self) -> torch.Tensor:
        return self.pending.slots

    def insert(self) -> torch.Tensor:
        new = len(self.pending.ids) if self.has_room else self.rows_needed
        rows, sorted_slots = self.known.insert(self.pending, new, self.step)
        self.backend.storage.grow(self.known.index.capacity)
        self.backend.start_new(rows, sorted_slots)
        return sorted_slots.slots

    def cancel(self) -> None:
        self.known.cancel(self.pending, self.step)
