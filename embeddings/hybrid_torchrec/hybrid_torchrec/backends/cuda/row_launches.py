"""Launches of the kernels on rows: one table's, or those of several tables at once (id_launches.py)."""

from __future__ import annotations

from typing import cast

import torch
import triton
import triton.language as tl

from hybrid_torchrec.backends import torch_rows
from hybrid_torchrec.backends.base import Gradient
from hybrid_torchrec.backends.cuda import row_kernels, update_kernels
from hybrid_torchrec.backends.cuda.launches import launch
from hybrid_torchrec.backends.cuda.sorted_slots import SortedSlots
from hybrid_torchrec.backends.cuda.table_offsets import TableOffsets, longest_of, starts_of
from hybrid_torchrec.initializers import Distribution
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.table_config import TableConfig

TYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
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


def gather(
    config: TableConfig,
    parts: torch.Tensor,
    slots: torch.Tensor,
    per_table: TableOffsets | None = None,
) -> torch.Tensor:
    """Rows of slots (L,), (L, D) float32."""
    dim, count = config.dim, len(slots)
    out = torch.empty((count, dim), device=slots.device)
    if count:
        width, rows = columns(dim), rows_for(dim)
        grid = (triton.cdiv(longest_of(per_table, count), rows), parts.shape[0], triton.cdiv(dim, width))
        launch(
            row_kernels.gather,
            grid,
            (slots.contiguous(), out, parts, starts_of(per_table, slots), count),
            {
                "DTYPE": TYPES[config.dtype],
                "D": dim,
                "COLUMNS": width,
                "GROUPED": per_table is not None,
                "ROWS": rows,
            },
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
    per_table: TableOffsets | None = None,
) -> torch.Tensor:
    """Bags of rows, (B, D) float32. per_table counts the bags of each table."""
    dim, bags = config.dim, offsets.shape[0] - 1
    out = torch.empty((bags, dim), device=slots.device)
    if bags:
        width = min(columns(dim), 256)
        factors = out if samples is None else samples.float().contiguous()
        launch(
            row_kernels.pool,
            (longest_of(per_table, bags), parts.shape[0], triton.cdiv(dim, width)),
            (slots, offsets, factors, out, parts, starts_of(per_table, slots), bags),
            {
                "DTYPE": TYPES[config.dtype],
                "MEAN": mean,
                "WEIGHTED": samples is not None,
                "D": dim,
                "COLUMNS": width,
                "GROUPED": per_table is not None,
                "ROWS": max(1, 1024 // width),
            },
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
    per_table: TableOffsets | None = None,
) -> torch.Tensor:
    """Gradients of the factors of pooled slots, (L,) float32."""
    count = len(slots)
    out = torch.empty(count, device=slots.device)
    if count:
        bags = torch_rows.bag_of_each(offsets, count)
        launch(
            row_kernels.factor_gradients,
            (longest_of(per_table, count), parts.shape[0]),
            (slots, bags, gradients.contiguous(), out, parts, starts_of(per_table, slots), count),
            {
                "DTYPE": TYPES[config.dtype],
                "D": config.dim,
                "COLUMNS": min(columns(config.dim), 256),
                "GROUPED": per_table is not None,
            },
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
    per_table: TableOffsets | None = None,
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
    programs = min(triton.cdiv(longest_of(per_table, count), rows), STARTERS // tables + 1)
    launch(
        row_kernels.start,
        (programs, tables),
        (keys, slots, numbers, parts, starts_of(per_table, slots), count),
        {
            "KIND": kind,
            "DTYPE": TYPES[config.dtype],
            "D": config.dim,
            "FIRST_WIDTH": widths[0],
            "SECOND_WIDTH": widths[1],
            "COLUMNS": width,
            "GROUPED": per_table is not None,
            "COUNTED": counted,
            "ROWS": rows,
        },
        num_warps=4,
        enable_fp_fusion=False,
    )


def _decay_of(spec: OptimizerSpec) -> int:
    """How the kernels take the weight decay."""
    if spec.weight_decay == 0.0:
        return update_kernels.NO_DECAY.value
    return (update_kernels.DECAY_IN_GRADIENT if spec.traits.decay_is_gradient else update_kernels.DECAY_IN_STEP).value


def _bags_and_factors(gradient: Gradient) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The bag of each slot, (L,) or None, and the factor of its gradient, (L,) or None."""
    if gradient.offsets is None:
        return None, gradient.samples
    bags = torch_rows.bag_of_each(gradient.offsets, len(gradient.slots))
    return bags, torch_rows.scales(gradient.offsets, bags, gradient.mean, gradient.samples)


def update(
    config: TableConfig,
    parts: torch.Tensor,
    sorted_slots: SortedSlots,
    gradient: Gradient,
    lr: float,
    iteration: int,
    version: int | None,
) -> None:
    """One step of the rows of a batch, whose slots are sorted. Raises ValueError, before any launch, for a kind that
    has no kernel."""
    if config.optimizer.kind not in update_kernels.KERNEL_KINDS:
        known = ", ".join(update_kernels.KERNEL_KINDS)
        raise ValueError(f"unknown optimizer {config.optimizer.kind!r}; valid: {known}")
    values = gradient.values
    bags, factors = _bags_and_factors(gradient)
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
    launch(
        update_kernels.update_runs,
        grid,
        (
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
        ),
        {**shape, "POOLED": bags is not None, "WEIGHTED": factors is not None},
        num_warps=UPDATE_WARPS,
    )
    if chunks > 1:
        launch(
            update_kernels.update_long_runs,
            (triton.cdiv(chunks, SPAN), grid[1]),
            (keys, heads, tails, parts, count, *step),
            {**shape, "SPAN": SPAN},
            num_warps=4,
        )
