"""The products of products.py by the kernels for Hopper: which they take, and their launches."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import torch
import triton

from gr_ops.cuda import paths
from gr_ops.cuda.kernel import Kernel
from gr_ops.cuda.launch_cache import launch
from gr_ops.cuda.layer.rows import with_rows
from gr_ops.cuda.tma import describe

PRODUCT = Kernel("layer.hopper_kernels", "product")
TOKENS, INNER, COLUMNS = 64, 64, 128  # as in hopper_kernels.py
PARTS = 4
SILU, CODED, SLOPE, RESIDUAL = range(4)
STAGES = 4


def take(a_LD: torch.Tensor, b_DE: torch.Tensor, parts: Sequence[torch.Tensor]) -> bool:
    """Whether they multiply these: what TMA and wgmma can, on a machine that they were tested on."""
    if not a_LD.is_cuda or a_LD.dtype not in (torch.bfloat16, torch.float16):
        return False
    machine = paths.machine(a_LD.device.index)
    described = _aligned(a_LD) and (_aligned(b_DE) or _aligned(b_DE.t()))
    sizes = a_LD.shape[1] % INNER == 0 and len(a_LD) < 2**31 - 2 * TOKENS
    whole = len(parts) <= PARTS and all(x.shape[1] % COLUMNS == 0 for x in parts)
    return described and sizes and whole and machine.tested and machine.capability == paths.HOPPER


def silu_parts(
    a_LD: torch.Tensor, b_DE: torch.Tensor, parts: Sequence[torch.Tensor], codes_LE: torch.Tensor | None = None
) -> None:
    """parts = SiLU(a b), split along its columns; and the codes of its slopes (slope_codes.py)."""
    if codes_LE is None:
        _launch(SILU, a_LD, b_DE, parts, parts, parts[0])
    else:
        _launch(CODED, a_LD, b_DE, [codes_LE], parts, parts[0])


def slope_parts(a_LD: torch.Tensor, b_DE: torch.Tensor, grads: Sequence[torch.Tensor]) -> torch.Tensor:
    """[L, E]: the gradients of the parts * SiLU'(a b)"""
    out_LE = torch.empty(len(a_LD), b_DE.shape[1], dtype=a_LD.dtype, device=a_LD.device)
    _launch(SLOPE, a_LD, b_DE, [with_rows(x) for x in grads], [out_LE], grads[0])
    return out_LE


def with_residual(
    a_LV: torch.Tensor, weight_DV: torch.Tensor, bias_D: torch.Tensor, x_LD: torch.Tensor, out_LD: torch.Tensor
) -> None:
    """out = x + a weight^T + bias"""
    _launch(RESIDUAL, a_LV, weight_DV.t(), [with_rows(x_LD)], [out_LD], bias_D.contiguous())


def _aligned(x: torch.Tensor) -> bool:
    """Its rows are contiguous, and begin at multiples of 16 bytes."""
    return x.stride(1) == 1 and x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0


def _launch(
    kind: int,
    a_LD: torch.Tensor,
    b_DE: torch.Tensor,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    bias: torch.Tensor,
) -> None:
    (tokens, inner), columns = a_LD.shape, b_DE.shape[1]
    pieces = 2 if kind != RESIDUAL and columns % (2 * COLUMNS) == 0 else 1
    columns_first = not _aligned(b_DE)
    b, block = (b_DE.t(), (COLUMNS, INNER)) if columns_first else (b_DE, (INNER, COLUMNS))
    described = (describe(a_LD, (TOKENS, INNER)), describe(b, block))
    (read, read_numbers), (written, written_numbers) = _parts(inputs), _parts(outputs)
    tiles = columns // (pieces * COLUMNS)
    vector = 16 // outputs[0].element_size()
    constants = (STAGES, pieces, columns_first, kind, vector)
    programs = min(_multiprocessors(a_LD.device.index), triton.cdiv(tokens, 2 * TOKENS) * tiles)
    numbers = (*read_numbers, *written_numbers, tokens, tiles, inner // INNER)
    arguments = (*described, *read, *written, bias, *numbers, *constants)
    types = (a_LD.dtype, inputs[0].dtype, outputs[0].dtype, bias.dtype)
    key = (*types, _alignment((*read, *written, bias), numbers), constants)
    launch(PRODUCT, (programs,), key, arguments, a_LD.device.index, num_warps=4)


def _alignment(tensors: Sequence[torch.Tensor], numbers: Sequence[int]) -> tuple[Any, ...]:
    """What Triton compiles a kernel for beside the types; the tokens are no matter to it."""
    return (
        *(x.data_ptr() % 16 == 0 for x in tensors),
        *((x == 1, x % 16 == 0) for x in (*numbers[:-3], *numbers[-2:])),
    )


def _parts(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[int]]:
    """Four of them, where all but the first begin, and their rows' steps; absent ones begin behind the last."""
    ends = list(itertools.accumulate(x.shape[1] for x in tensors))
    absent = PARTS - len(tensors)
    four = [*tensors, *[tensors[-1]] * absent]
    return four, [*ends[:-1], *[ends[-1]] * (absent), *(x.stride(0) for x in four)]


@functools.cache
def _multiprocessors(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
