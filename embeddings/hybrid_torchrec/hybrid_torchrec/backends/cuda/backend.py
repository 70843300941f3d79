"""Lookup and fused update of tables on a CUDA device by Triton kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
import triton
import triton.language as tl

from hybrid_torchrec.backends import torch_rows
from hybrid_torchrec.backends.cuda import launch, row_kernels, update_kernels
from hybrid_torchrec.backends.cuda.index import DeviceIndex
from hybrid_torchrec.backends.cuda.insertion import NewRows
from hybrid_torchrec.backends.cuda.layout import constants
from hybrid_torchrec.backends.cuda.normal_quantile import POLYNOMIALS, THRESHOLDS
from hybrid_torchrec.backends.cuda.sorted_slots import SortedSlots, sort
from hybrid_torchrec.backends.ids import IdTable
from hybrid_torchrec.backends.torch import GenericBackend, Gradient
from hybrid_torchrec.initializers import Distribution
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.table_config import TableConfig

TYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
WEIGHTS, SEED = constants("WEIGHTS", "SEED")
GATHERED, GATHER_WARPS = 2048, 2  # elements of a program: enough loads on their way to fill the memory's pipes
UPDATED, UPDATE_WARPS = 2048, 4
STARTERS = 2112  # programs that start new rows: 16 for each of 132 processors
STARTED = 1024  # elements of such a program at a time
WIDEST = 1024  # columns of a program; kinds that look at whole rows leave wider ones to PyTorch's operators
SPAN = 64


def columns(dim: int) -> int:
    return min(triton.next_power_of_2(dim), WIDEST)


def rows_for(dim: int) -> int:
    return max(1, GATHERED // columns(dim))


@dataclass
class CudaBackend(GenericBackend):
    """index: that of the table, or None where ids are looked up on the CPU."""

    index: DeviceIndex | None = None

    def __post_init__(self) -> None:
        device, initializer = self.storage.weights.device, self.config.initializer
        self.numbers: torch.Tensor | None = None
        if isinstance(initializer, Distribution):
            numbers = [*initializer.parameters(), *THRESHOLDS, *POLYNOMIALS]
            self.numbers = torch.tensor(numbers, dtype=torch.float64).to(device)
        self._parts: torch.Tensor | None = None
        self._sorted: SortedSlots | None = None  # of the last batch, whose update is likely to follow
        self._known: torch.Tensor | None = None  # the index's addresses and those of the rows, of which `_parts` is
        self._rows_at: list[int] = []
        rounds = self.config.stochastic_rounding and self.config.dtype != torch.float32
        whole = self.config.optimizer.traits.whole_rows and self.config.dim > WIDEST
        self._fused = not rounds and not whole

    @property
    def kind(self) -> TableConfig | None:
        initializer = self.config.initializer
        if self.index is None or self.numbers is None or not initializer.per_id or not self._fused:
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
        known = None if self.index is None else self.index.parts
        rows_at = [tensor.data_ptr() for tensor in (storage.weights, *storage.state.values())]
        if self._parts is None or known is not self._known or rows_at != self._rows_at:
            seed = self.config.seed % 2**64
            words = [0] * WEIGHTS + [*rows_at, *[0] * (SEED - WEIGHTS - len(rows_at))]
            parts = launch.parts_tensor([*words, seed - 2**64 if seed >= 2**63 else seed], storage.weights.device)
            if known is not None:
                parts[:, :WEIGHTS] = known[:, :WEIGHTS]
            self._parts, self._known, self._rows_at = parts, known, rows_at
        return self._parts

    def gather(self, slots: torch.Tensor) -> torch.Tensor:
        return gather(self.config, self.parts(), slots)

    def pool(
        self, slots: torch.Tensor, offsets: torch.Tensor, mean: bool, samples: torch.Tensor | None
    ) -> torch.Tensor:
        return pool(self.config, self.parts(), slots, offsets, mean, samples)

    def sample_weight_gradients(
        self, slots: torch.Tensor, offsets: torch.Tensor, gradients: torch.Tensor, mean: bool
    ) -> torch.Tensor:
        return factor_gradients(self.config, self.parts(), slots, offsets, gradients, mean)

    def update(self, gradient: Gradient, lr: float, iteration: int, ids: IdTable) -> None:
        if not self._fused:
            super().update(gradient, lr, iteration, ids)
            return
        slots = gradient.slots
        if len(slots) == 0:
            return
        bags = None if gradient.offsets is None else torch_rows.bag_of_each(gradient.offsets, slots.shape[0])
        factors = gradient.samples
        if bags is not None and gradient.offsets is not None:
            factors = torch_rows.scales(gradient.offsets, bags, gradient.mean, gradient.samples)
        sorted_slots = self._sorted
        if sorted_slots is None or not sorted_slots.matches(slots):
            sorted_slots = sort(slots, self.storage.capacity.bit_length())
        version = None if self.index is None else self.index.version()
        update(self.config, self.parts(), sorted_slots, gradient.values, bags, factors, lr, iteration, version)
        if self.index is None:
            ids.index.mark_changed(slots.cpu())

    def start(self, slots: torch.Tensor, keys: torch.Tensor) -> None:
        if self.numbers is None or len(slots) == 0:
            super().start(slots.cpu(), keys.cpu())
            return
        device = self.storage.weights.device
        self._start(keys.to(device), slots.to(device), self.parts(), counted=False)

    def start_new(self, rows: NewRows, sorted_slots: SortedSlots, insertions: Callable[[], int]) -> None:
        """Values of rows that were placed for a batch. By id, the host need not know how many they are; insertions():
        rows that were made until now."""
        self._sorted = sorted_slots
        initializer = self.config.initializer
        if self.numbers is not None and initializer.per_id:
            self._start(rows.ids, rows.slots, self.parts(), counted=True)
            return
        new, until = rows.count(), insertions()
        first = self.config.first_key + until - new
        keys = rows.ids[:new] if initializer.per_id else torch.arange(first, first + new)
        self.start(rows.slots[:new], keys)

    def _start(self, keys: torch.Tensor, slots: torch.Tensor, parts: torch.Tensor, counted: bool) -> None:
        start(self.config, self.numbers, parts, keys, slots, counted=counted)


def gather(
    config: TableConfig,
    parts: torch.Tensor,
    slots: torch.Tensor,
    starts: torch.Tensor | None = None,
    longest: int | None = None,
) -> torch.Tensor:
    """Rows of slots (L,), (L, D) float32."""
    dim, count = config.dim, len(slots)
    out = torch.empty((count, dim), device=slots.device)
    if count:
        width, rows = columns(dim), rows_for(dim)
        grid = (triton.cdiv(count if longest is None else longest, rows), parts.shape[0], triton.cdiv(dim, width))
        row_kernels.gather[grid](
            slots.contiguous(),
            out,
            parts,
            slots if starts is None else starts,
            count,
            DTYPE=TYPES[config.dtype],
            D=dim,
            COLUMNS=width,
            GROUPED=starts is not None,
            ROWS=rows,
            num_warps=GATHER_WARPS,
        )
    return out


def pool(
    config: TableConfig,
    parts: torch.Tensor,
    slots: torch.Tensor,
    offsets: torch.Tensor,
    mean: bool,
    samples: torch.Tensor | None,
    starts: torch.Tensor | None = None,
    longest: int | None = None,
) -> torch.Tensor:
    """Bags of rows, (B, D) float32. Of several tables: starts (T + 1,) and longest count their bags."""
    dim, bags = config.dim, offsets.shape[0] - 1
    out = torch.empty((bags, dim), device=slots.device)
    if bags:
        width = min(columns(dim), 256)
        row_kernels.pool[(bags if longest is None else longest, parts.shape[0], triton.cdiv(dim, width))](
            slots,
            offsets,
            out if samples is None else samples.float().contiguous(),
            out,
            parts,
            slots if starts is None else starts,
            bags,
            DTYPE=TYPES[config.dtype],
            MEAN=mean,
            WEIGHTED=samples is not None,
            D=dim,
            COLUMNS=width,
            GROUPED=starts is not None,
            ROWS=max(1, 1024 // width),
            num_warps=1,
        )
    return out


def factor_gradients(
    config: TableConfig,
    parts: torch.Tensor,
    slots: torch.Tensor,
    offsets: torch.Tensor,
    gradients: torch.Tensor,
    mean: bool,
    starts: torch.Tensor | None = None,
    longest: int | None = None,
) -> torch.Tensor:
    """Gradients of the factors of pooled slots, (L,) float32."""
    count = len(slots)
    out = torch.empty(count, device=slots.device)
    if count:
        bags = torch_rows.bag_of_each(offsets, count)
        row_kernels.factor_gradients[(count if longest is None else longest, parts.shape[0])](
            slots,
            bags,
            gradients.contiguous(),
            out,
            parts,
            slots if starts is None else starts,
            count,
            DTYPE=TYPES[config.dtype],
            D=config.dim,
            COLUMNS=min(columns(config.dim), 256),
            GROUPED=starts is not None,
            num_warps=1,
        )
        factor = torch_rows.scales(offsets, bags, mean, None)
        out = out if factor is None else out * factor
    return out


def start(
    config: TableConfig,
    numbers: torch.Tensor,
    parts: torch.Tensor,
    keys: torch.Tensor,
    slots: torch.Tensor,
    starts: torch.Tensor | None = None,
    longest: int | None = None,
    *,
    counted: bool,
) -> None:
    count = len(slots)
    if not count:
        return
    kind = cast(Distribution, config.initializer).kind
    if kind not in row_kernels.KINDS:
        raise ValueError(f"{config.initializer}: unknown kind {kind}; valid: {list(row_kernels.KINDS)}")
    widths = [width or 1 for width in config.optimizer.state_widths(config.dim).values()] + [0, 0]
    width = max(2, min(columns(config.dim), 128))
    rows, tables = max(1, STARTED // width), parts.shape[0]
    programs = min(triton.cdiv(count if longest is None else longest, rows), STARTERS // tables + 1)
    row_kernels.start[(programs, tables)](
        keys,
        slots,
        numbers,
        parts,
        slots if starts is None else starts,
        count,
        KIND=kind,
        DTYPE=TYPES[config.dtype],
        D=config.dim,
        FIRST_WIDTH=widths[0],
        SECOND_WIDTH=widths[1],
        COLUMNS=width,
        GROUPED=starts is not None,
        COUNTED=counted,
        ROWS=rows,
        num_warps=4,
        enable_fp_fusion=False,
    )


def _decay_of(spec: OptimizerSpec) -> int:
    """How the kernels take the weight decay."""
    if spec.weight_decay == 0.0:
        return update_kernels.NO_DECAY.value
    return (update_kernels.DECAY_IN_GRADIENT if spec.traits.decay_is_gradient else update_kernels.DECAY_IN_STEP).value


def update(
    config: TableConfig,
    parts: torch.Tensor,
    sorted_slots: SortedSlots,
    values: torch.Tensor,
    bags: torch.Tensor | None,
    factors: torch.Tensor | None,
    lr: float,
    iteration: int,
    version: int | None,
) -> None:
    """One step of the rows of a batch. Raises ValueError, before any launch, for a kind that has no kernel."""
    if config.optimizer.kind not in update_kernels.KERNEL_KINDS:
        known = ", ".join(update_kernels.KERNEL_KINDS)
        raise ValueError(f"unknown optimizer {config.optimizer.kind!r}; valid: {known}")
    keys, sources = sorted_slots.keys, sorted_slots.sources
    dim, count, spec = config.dim, len(keys), config.optimizer
    width = columns(dim)
    chunk = max(1, UPDATED // width)
    if not spec.traits.whole_rows:
        width = min(width, 128)
        chunk = max(1, UPDATED // width)
    chunks = triton.cdiv(count, chunk)
    heads, tails = torch.empty((2, chunks, dim), device=keys.device)
    corrects = spec.traits.corrects_moments
    beta1, beta2 = spec.betas
    step = (
        sorted_slots.bits,
        0 if version is None else version,
        lr,
        spec.epsilon,
        beta1,
        beta2,
        1.0 - beta1,
        1.0 - beta2,
        1.0 / (1.0 - beta1**iteration) if corrects else 1.0,
        1.0 / (1.0 - beta2**iteration) if corrects else 1.0,
        spec.weight_decay,
    )
    shape = {
        "KIND": spec.number,
        "DTYPE": TYPES[config.dtype],
        "VERSIONED": version is not None,
        "DECAYS": _decay_of(spec),
        "D": dim,
        "COLUMNS": width,
        "CHUNK": chunk,
    }
    grid = (chunks, triton.cdiv(dim, width))
    update_kernels.update_runs[grid](
        keys,
        sources,
        sources if bags is None else bags,
        values if factors is None else factors.contiguous(),
        values.contiguous(),
        heads,
        tails,
        parts,
        count,
        *step,
        **shape,
        POOLED=bags is not None,
        WEIGHTED=factors is not None,
        num_warps=UPDATE_WARPS,
    )
    if chunks > 1:
        update_kernels.update_long_runs[(triton.cdiv(chunks, SPAN), grid[1])](
            keys, heads, tails, parts, count, *step, **shape, SPAN=SPAN, num_warps=4
        )
