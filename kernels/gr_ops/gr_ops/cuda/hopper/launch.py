"""From tensors to the kernels for Hopper; which problems they take is in paths.py.

Few facts decide which compiled kernel it is: numbers and addresses do not (batch.NUMBERS, batch.POINTERS).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
import triton

from gr_ops.cuda.hopper import diagonals, near_sums, times, work_list
from gr_ops.cuda.kernel import Kernel
from gr_ops.cuda.launch_cache import launch
from gr_ops.cuda.problem import Problem
from gr_ops.cuda.tma import describe

ATTEND = Kernel("hopper.forward", "forward")
GRADIENTS = Kernel("hopper.backward", "backward")
WIDE_GRADIENTS_OF_KEYS = Kernel("hopper.wide_keys", "backward_of_keys")
WIDE_GRADIENTS_OF_QUERIES = Kernel("hopper.wide_queries", "backward_of_queries")
ADD_NEAR = Kernel("hopper.near_sums", "add_near")
ADD_DIAGONALS = Kernel("hopper.diagonals", "add_diagonals")
ROUND_SUM, CLEAR_SUM = Kernel("hopper.rounding", "round_sum"), Kernel("hopper.rounding", "clear_sum")
PREPARE, ENCODE = Kernel("hopper.times", "prepare"), Kernel("hopper.times", "encode")
LIST_TILES = Kernel("hopper.work_list", "list_tiles")
Sums = tuple[torch.Tensor, torch.Tensor] | None
Slopes = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # those of q, k and v: uint8 [L, N, A] (slope_codes.py)
TILE, HALF = 128, 64  # of a program, and of each of its warpgroups: queries forward, keys backward
# Rows of heads whose tiles are handed out together: their data is read from the L2 cache.
SWIZZLE = 8  # forward
L2_BYTES = 24 << 20  # half of the H100's; backward, with five tensors, one of them float32


class Forward(NamedTuple):
    keys: int  # of a tile
    stages: int
    in_registers: bool  # queries, in place of shared memory


class Backward(NamedTuple):
    queries: int  # of a tile
    stages: int
    slots: int  # for the gradient of scores, on its way between warpgroups
    registers: int  # of each of the two warpgroups with keys
    columns: int  # of the gradient of queries, added at a time


class WideBackward(NamedTuple):
    queries: int  # of a tile that keys go through
    stages: int
    slots: int  # for the slopes, on their way between warpgroups
    keys: int  # of a tile that queries go through
    buffers: int  # for keys and values, in turns


# By padded head dim; the fastest of those measured on an H100.
FORWARD = {
    32: Forward(128, 4, False),
    64: Forward(128, 4, False),
    128: Forward(64, 4, True),
    256: Forward(64, 2, False),
}
# A relative bias takes registers: narrower tiles.
FORWARD_RELATIVE = {**FORWARD, 32: Forward(64, 4, False), 64: Forward(64, 4, False)}
BACKWARD = {32: Backward(64, 2, 1, 208, 32), 64: Backward(64, 2, 1, 208, 64), 128: Backward(64, 2, 1, 208, 64)}
# The gradient of scores waits for the sums of its diagonals: two slots, and registers for them. 200 make ptxas wait for
# each wgmma, 208 spill what the sums need: slower.
BACKWARD_RELATIVE = {dim: shape._replace(slots=2, registers=200) for dim, shape in BACKWARD.items()}
WIDE_BACKWARD = {256: WideBackward(64, 2, 2, 64, 3)}
CHUNK = 1024  # distances that a program of times.prepare copies
ROUNDED = 4096  # elements of a program of rounding.py
KEY_BLOCKS = 128  # of times.encode at a time


def _describe(x_LNA: torch.Tensor, rows: int, columns: int) -> Any:
    """One tile of one head."""
    return describe(x_LNA, (rows, 1, columns))


@cache
def _multiprocessors(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


_counters: dict[tuple[int, int], torch.Tensor] = {}


def _counter(device: torch.device) -> torch.Tensor:
    """At 0 between launches; launches of one stream follow each other."""
    key = (device.index, torch._C._cuda_getCurrentRawStream(device.index))
    if key not in _counters:
        _counters[key] = torch.zeros(1, dtype=torch.int32, device=device)
    return _counters[key]


def _launch(
    kernel: Kernel,
    grid: tuple[int, ...],
    types: tuple[Any, ...],
    flags: tuple[Any, ...],
    arguments: tuple[Any, ...],
    device: int,
    warps: int,
) -> None:
    """`flags`: the constants at the end of `arguments`, of which the first says whether there is a list of tiles; the
    kernel of the other kind of rows is compiled in the background."""

    def other() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        flipped = (not flags[0], *flags[1:])
        return (*types, flipped), (*arguments[: -len(flags)], *flipped)

    launch(kernel, grid, (*types, flags), arguments, device, other, num_warps=warps)


def attend(p: Problem, out: torch.Tensor) -> None:
    """Writes out [L, N, D]."""
    q, k, v = (_for_tma(x) for x in (p.q, p.k, p.v))
    dim, padded = q.shape[2], padded_dim(q.shape[2])
    shape = (FORWARD if p.relative is None else FORWARD_RELATIVE)[padded]
    device, batch, grid, listed = _batch(p, TILE, False)
    masks = (p.segments, p.window > 0, p.relative is not None)
    flags = (listed, q.shape[1], dim, padded, shape.keys, shape.stages, *masks, shape.in_registers)
    tables, _kept = _tables(p, batch[0], listed, True)
    arguments = (
        *(_describe(x, rows, padded) for x, rows in ((q, HALF), (k, shape.keys), (v, shape.keys))),
        out,
        *batch,
        0.5 * p.alpha,
        float(p.scale),
        out.stride(0),
        *tables,
        *flags,
    )
    _launch(ATTEND, (grid,), _types(p), flags, arguments, device, 4)


def gradients(
    p: Problem,
    grad: torch.Tensor,
    dq: torch.Tensor,
    dk: torch.Tensor,
    dv: torch.Tensor,
    slopes: Slopes | None = None,
) -> Sums:
    """Writes dq, dk, dv, whose heads lie side by side, times `slopes`, whose tokens are as far apart in all three.
    Returns the gradients of a relative bias's position [P] and time [T], float32."""
    q, k, v, grad = (_for_tma(x) for x in (p.q, p.k, p.v, grad))
    dim, padded = q.shape[2], padded_dim(q.shape[2])
    if padded in WIDE_BACKWARD:
        _wide_gradients(p, q, k, v, grad, dq, dk, dv, slopes)
        return None
    shape = (BACKWARD if p.relative is None else BACKWARD_RELATIVE)[padded]
    device, batch, grid, listed = _batch(p, TILE, True)
    kind = (shape.queries, shape.stages, shape.slots, shape.registers)
    kinds = (p.segments, p.window > 0, p.relative is not None, slopes is not None)
    flags = (listed, q.shape[1], dim, padded, *kind, *kinds)
    tables, _kept = _tables(p, batch[0], listed, False)
    sums = _sums(p, grid)
    summed = torch.empty(dq.shape, dtype=torch.float32, device=dq.device)
    _clear(summed)
    q_codes, k_codes, v_codes = slopes or (dq, dk, dv)  # never read
    arguments = (
        *(_describe(x, rows, padded) for x, rows in ((q, shape.queries), (k, HALF), (v, HALF), (grad, shape.queries))),
        _describe(summed, shape.queries, shape.columns),
        dk,
        dv,
        *batch,
        0.5 * p.alpha,
        float(p.scale),
        float(p.scale * p.alpha),
        dk.stride(0),
        dv.stride(0),
        k_codes,
        v_codes,
        k_codes.stride(0),
        *tables,
        *(sums or (summed, summed, summed, dq)),
        *((sums[0].shape[1], sums[1].shape[1], sums[2].shape[1]) if sums else (0, 0, 0)),
        *flags,
    )
    _launch(GRADIENTS, (grid,), (*_types(p), shape.columns), flags, arguments, device, 4)
    _round(summed, None if slopes is None else q_codes, dq)
    if sums is None:
        return None
    _add_near(p, sums, tables, batch, listed)
    return _add_diagonals(p, sums)


def _add_diagonals(p: Problem, sums: tuple[torch.Tensor, ...]) -> Sums:
    """The gradients of the position [P] and of time [T]."""
    of_position, of_blocks, of_time, _ = sums
    programs, buckets = of_time.shape
    out, time_out = (of_blocks.new_empty(n) for n in (len(p.relative.position_P), buckets))
    constants = (
        p.segments,
        near_sums.COPIES,
        diagonals.BEFORE,
        diagonals.FIRST,
        diagonals.NUMBERS,
        diagonals.DISTANCES,
        triton.next_power_of_2(buckets),
        diagonals.ROWS,
    )
    numbers = (of_blocks.shape[1] // diagonals.NUMBERS, len(out), programs, buckets, float(p.scale * p.alpha))
    arguments = (of_blocks, of_position, of_time, out, time_out, *numbers, *constants)
    grid = (triton.cdiv(len(out), diagonals.DISTANCES) + 1,)
    launch(ADD_DIAGONALS, grid, constants, arguments, p.q.device.index, num_warps=4)
    return out, time_out


def _add_near(
    p: Problem, sums: tuple[torch.Tensor, ...], tables: tuple[Any, ...], batch: tuple[Any, ...], listed: bool
) -> None:
    """To the sums for time what the tiles at the diagonal add."""
    _, _, of_time, of_near = sums
    _, codes, blocks, _ = tables
    offsets, contexts, targets = batch[:3]
    heads, total = of_near.shape[:2]
    seconds, cells = p.relative.times_L.contiguous(), p.relative.cells.contiguous()
    numbers = (total, p.longest, blocks, p.group, float(p.scale * p.alpha), *of_time.shape)
    constants = (listed, heads, p.segments, times.BLOCK, times.DIAGONALS, TILE, times.FIRST, times.AROUND)
    constants = (*constants, near_sums.TOGETHER)
    arguments = (of_near, of_time, seconds, cells, codes, offsets, contexts, targets, *numbers, *constants)
    grid = (p.sequences * blocks, times.DIAGONALS)
    _launch(ADD_NEAR, grid, _types(p), constants, arguments, p.q.device.index, 8)


def _wide_gradients(
    p: Problem,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad: torch.Tensor,
    dq: torch.Tensor,
    dk: torch.Tensor,
    dv: torch.Tensor,
    slopes: Slopes | None,
) -> None:
    heads, dim, padded = q.shape[1], q.shape[2], padded_dim(q.shape[2])
    shape = WIDE_BACKWARD[padded]
    half, scale, key_scale = 0.5 * p.alpha, float(p.scale), float(p.scale * p.alpha)
    q_codes, k_codes, v_codes = slopes or (dq, dk, dv)  # never read

    device, batch, grid, listed = _batch(p, HALF, True)
    kinds = (p.segments, p.window > 0, slopes is not None)
    flags = (listed, heads, dim, padded, shape.queries, shape.stages, shape.slots, *kinds)
    tiles = ((q, shape.queries), (k, HALF), (v, HALF), (grad, shape.queries))
    numbers = (half, scale, key_scale, dk.stride(0), dv.stride(0), k_codes, v_codes, k_codes.stride(0))
    arguments = (*(_describe(x, rows, padded) for x, rows in tiles), dk, dv, *batch, *numbers, *flags)
    _launch(WIDE_GRADIENTS_OF_KEYS, (grid,), _types(p), flags, arguments, device, 4)

    device, batch, grid, listed = _batch(p, TILE, False)
    flags = (listed, heads, dim, padded, shape.keys, shape.buffers, *kinds)
    tiles = ((q, HALF), (k, shape.keys), (v, shape.keys), (grad, HALF))
    numbers = (half, key_scale, dq.stride(0), q_codes, q_codes.stride(0))
    arguments = (*(_describe(x, rows, padded) for x, rows in tiles), dq, *batch, *numbers, *flags)
    _launch(WIDE_GRADIENTS_OF_QUERIES, (grid,), _types(p), flags, arguments, device, 4)


def _clear(summed: torch.Tensor) -> None:
    arguments = (summed, len(summed), summed[0].numel() // 8, ROUNDED)
    launch(CLEAR_SUM, (triton.cdiv(summed.numel(), ROUNDED),), (), arguments, summed.device.index, num_warps=4)


def _round(summed: torch.Tensor, codes: torch.Tensor | None, out: torch.Tensor) -> None:
    tokens, width = len(summed), summed[0].numel()
    padded = triton.next_power_of_2(width)
    rows, coded = max(1, ROUNDED // padded), codes is not None
    codes = out if codes is None else codes  # never read
    arguments = (summed, codes, out, tokens, width, codes.stride(0), out.stride(0), coded, rows, padded)
    key = (out.dtype, width, coded, *(x % 16 for y in (codes, out) for x in (y.stride(0), y.data_ptr())))
    launch(ROUND_SUM, (triton.cdiv(tokens, rows),), key, arguments, out.device.index, num_warps=4)


def _tables(p: Problem, offsets: torch.Tensor, listed: bool, of_queries: bool) -> tuple[tuple[Any, ...], Any]:
    """What the kernels read of a relative bias (relative.TABLES), the blocks of the longest row, and the band's pairs;
    the rows of the kernels' tiles are queries, or keys. And what is to be kept until they are launched."""
    if p.relative is None:
        return (offsets, offsets, 0, 0), None  # never read
    position, time, seconds, cells = (
        x.contiguous() for x in (p.relative.position_P, p.relative.time_T, p.relative.times_L, p.relative.cells)
    )
    device, total, distances = p.q.device, len(p.q), len(position)
    buckets, blocks = max(times.SEARCHED, triton.next_power_of_2(len(time))), triton.cdiv(p.longest, times.BLOCK)
    pairs = (times.BEFORE + distances + times.BEHIND + 1) // 2
    band = torch.empty(4 * pairs, dtype=torch.float32, device=device)
    tables = torch.empty(times.size(total, buckets), dtype=torch.int64, device=device)
    codes = torch.empty(p.sequences * blocks * (times.AROUND + blocks), dtype=torch.int64, device=device)
    numbers = (p.sequences, total, p.longest, blocks, distances, len(time), pairs)
    layout = (times.BLOCK, times.DIAGONALS)
    sizes = (times.PADDING, times.HEADER, times.CELLS, times.FAR)
    constants = (listed, buckets, times.SEARCHED, *layout, times.BEFORE, *sizes, CHUNK)
    grid = (p.sequences * blocks + buckets // times.SEARCHED + triton.cdiv(len(band), CHUNK),)
    arguments = (position, time, seconds, cells, offsets, band, tables, 0.5 * p.alpha, *numbers, *constants)
    _launch(PREPARE, grid, (offsets.dtype,), constants, arguments, device.index, 4)
    constants = (listed, of_queries, times.FIRST, times.AROUND, *layout, *sizes, KEY_BLOCKS)
    arguments = (offsets, tables, codes, total, p.longest, blocks, *constants)
    grid = (p.sequences * blocks, 1 + times.DIAGONALS)
    _launch(ENCODE, grid, (offsets.dtype,), constants, arguments, device.index, 8)
    return (band, codes, blocks, pairs), tables


def _sums(p: Problem, programs: int) -> tuple[torch.Tensor, ...] | None:
    """For the gradients of position and time: some copies, so that not all programs add to the same addresses; and for
    the gradient of scores at the diagonal."""
    if p.relative is None:
        return None
    total, heads, _ = p.q.shape
    copies = (near_sums.COPIES, near_sums.COPIES, programs)
    # By distance is added where tokens' distances do not follow the diagonals.
    distances = len(p.relative.position_P) if p.segments else 0
    sizes = (distances, diagonals.pairs_of(p.longest) * diagonals.NUMBERS, len(p.relative.time_T))
    near = torch.empty(heads, total, times.DIAGONALS, times.BLOCK, dtype=p.q.dtype, device=p.q.device)
    zeros = torch.zeros(sum(n * m for n, m in zip(copies, sizes)), dtype=torch.float32, device=p.q.device)
    parts = zeros.split([n * m for n, m in zip(copies, sizes)])
    return *(part.view(n, m) for part, n, m in zip(parts, copies, sizes)), near


def padded_dim(dim: int) -> int:
    return max(32, triton.next_power_of_2(dim))


def _for_tma(x_LNA: torch.Tensor) -> torch.Tensor:
    """Heads side by side, addresses and steps in multiples of 16 bytes; a copy where they are not."""
    width, aligned = x_LNA.shape[2], x_LNA.data_ptr() % 16 == 0 and x_LNA.stride(0) % 8 == 0
    if aligned and x_LNA.stride(2) == 1 and x_LNA.stride(1) == width:
        return x_LNA
    return x_LNA.clone(memory_format=torch.contiguous_format)


def _types(p: Problem) -> tuple[Any, ...]:
    return p.q.dtype, *(None if x is None else x.dtype for x in (p.offsets, p.contexts, p.targets))


def _batch(p: Problem, size: int, rising: bool) -> tuple[int, tuple[Any, ...], int, bool]:
    """The device; arguments of batch.Batch, programs, and whether there is a list of tiles."""
    total, heads, dim = p.q.shape
    device, sequences, tiles = p.q.device.index, p.sequences, triton.cdiv(p.longest, size)
    offsets = p.offsets.contiguous()
    contexts, targets = p.contexts, p.targets
    if p.segments and (contexts is None or targets is None):
        none = offsets.new_zeros(sequences)
        contexts, targets = (none if x is None else x for x in (contexts, targets))
    contexts, targets = (offsets if x is None else x.contiguous() for x in (contexts, targets))
    listed = total != sequences * p.longest
    items, many = offsets, sequences * tiles
    if listed:
        many = min(many, total // size + sequences)
        items = torch.empty(many + 1, dtype=torch.int64, device=p.q.device)
        arguments = (offsets, items, sequences, total, p.longest, many, size, work_list.CHUNK, rising)
        launch(LIST_TILES, (sequences,), (offsets.dtype, size, rising), arguments, device)
    swizzle = L2_BYTES // (p.longest * dim * 12) if rising else SWIZZLE
    swizzle = max(1, min(sequences * heads, swizzle))
    facts = (sequences, tiles, swizzle, total, p.longest, p.group, p.window, p.min_full)
    batch = (offsets, contexts, targets, items, _counter(p.q.device), *facts)
    return device, batch, max(1, min(_multiprocessors(device), many * heads)), listed
