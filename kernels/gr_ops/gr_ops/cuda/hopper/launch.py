"""From tensors to the kernels for Hopper; which problems they take is in paths.py.

A launch costs the host time: Triton's own reads some forty arguments to find the compiled kernel. Here few facts decide
which one it is, and the compiled kernel is called directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
from triton import knobs
from triton.experimental.gluon import language as gl
from triton.runtime import driver

from gr_ops.cuda.hopper import backward, forward, work

TYPES = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16, torch.float32: gl.float32}
OPTIONS = (False, False)
L2_BYTES = 24 << 20  # half of the H100's, for the keys and values that programs read at the same time
# By padded head dim: tiles of K keys, stages of them.
FORWARD = {32: (128, 4), 64: (128, 4), 128: (64, 4), 256: (64, 2)}
# Tiles of Q queries, stages, slots of the scores' gradient, registers of the warpgroups with keys, columns of a sum.
BACKWARD = {32: (64, 2, 2, 208, 32), 64: (64, 2, 2, 208, 64), 128: (64, 2, 2, 208, 64)}


@dataclass
class Descriptor:
    """What Triton's launcher makes a TMA descriptor of: one tile of one head."""

    base: torch.Tensor
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    layout: Any
    padding: str = "zero"


@cache
def _layout(rows: int, columns: int, dtype: torch.dtype) -> Any:
    return gl.NVMMASharedLayout.get_default_for([rows, 1, columns], TYPES[dtype])


def _describe(x_LNA: torch.Tensor, rows: int, columns: int) -> Descriptor:
    return Descriptor(
        x_LNA, list(x_LNA.shape), list(x_LNA.stride()), [rows, 1, columns], _layout(rows, columns, x_LNA.dtype)
    )


@cache
def _multiprocessors(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


_counters: dict[tuple[int, int], torch.Tensor] = {}
_compiled: dict[tuple[Any, ...], Any] = {}


def _counter(device: torch.device, stream: int) -> torch.Tensor:
    """At 0 between launches; launches of one stream follow each other."""
    key = (device.index, stream)
    if key not in _counters:
        _counters[key] = torch.zeros(1, dtype=torch.int32, device=device)
    return _counters[key]


def _launch(kernel: Any, grid: int, stream: int, key: tuple[Any, ...], *arguments: Any, warps: int = 4) -> None:
    """`key`: all that the compiled kernel depends on but the kernel itself."""
    key = (kernel, *key)
    found = _compiled.get(key)
    if found is None:
        _compiled[key] = kernel[(grid,)](*arguments, num_warps=warps)
        return
    enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    about = found.launch_metadata((grid, 1, 1), stream, *arguments)
    found.run(grid, 1, 1, stream, found.function, found.packed_metadata, about, enter, leave, *arguments)


def attend(p: Any, out: torch.Tensor) -> None:
    """Writes out [L, N, D]; `p` is attention.Problem."""
    dim, padded = p.q.shape[2], _padded(p.q.shape[2])
    keys, stages = FORWARD[padded]
    device, stream = _current(p)
    batch, grid, listed = _batch(p, forward.QUERIES, False, device, stream)
    flags = (p.q.shape[1], dim, padded, keys, stages, listed, p.counts, p.window > 0, *OPTIONS)
    _launch(
        forward.forward, grid, stream, (device, p.q.dtype, p.offsets.dtype, _kinds(p), flags),
        _describe(p.q, 64, padded), _describe(p.k, keys, padded), _describe(p.v, keys, padded), out, *batch,
        0.5 * p.alpha, p.scale, out.stride(0), *flags,
    )  # fmt: skip


def gradients(p: Any, grad: torch.Tensor, dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor) -> None:
    """Writes dq, dk, dv, contiguous."""
    dim, padded = p.q.shape[2], _padded(p.q.shape[2])
    queries, stages, slots, registers, columns = BACKWARD[padded]
    device, stream = _current(p)
    batch, grid, listed = _batch(p, backward.KEYS, True, device, stream)
    flags = (p.q.shape[1], dim, padded, queries, stages, slots, registers, listed, p.counts, p.window > 0)
    summed = torch.zeros(dq.shape, dtype=torch.float32, device=dq.device)
    _launch(
        backward.backward, grid, stream, (device, p.q.dtype, p.offsets.dtype, _kinds(p), flags, columns),
        _describe(p.q, queries, padded), _describe(p.k, 64, padded), _describe(p.v, 64, padded),
        _describe(grad, queries, padded), _describe(summed, queries, columns), dk, dv, *batch,
        0.5 * p.alpha, p.scale, p.scale * p.alpha, dk.stride(0), dv.stride(0), *flags,
    )  # fmt: skip
    dq.copy_(summed)


def _padded(dim: int) -> int:
    return max(32, triton.next_power_of_2(dim))


def _current(p: Any) -> tuple[int, int]:
    device = p.q.device.index
    return device, driver.active.get_current_stream(device)


def _kinds(p: Any) -> tuple[Any, ...]:
    return tuple(None if x is None else x.dtype for x in (p.contexts, p.targets))


def _batch(p: Any, size: int, rising: bool, device: int, stream: int) -> tuple[tuple[Any, ...], int, bool]:
    """Arguments of rows.Batch, programs, and whether there is a list of tiles."""
    total, heads, dim = p.q.shape
    sequences = p.sequences
    tiles = triton.cdiv(p.longest, size)
    counter = _counter(p.q.device, stream)
    none = p.offsets
    if p.counts and (p.contexts is None or p.targets is None):
        none = p.offsets.new_zeros(sequences)
    contexts, targets = (none if x is None else x for x in (p.contexts, p.targets))
    listed = total != sequences * p.longest
    items, many = p.offsets, sequences * tiles
    if listed:
        many = min(many, total // size + sequences)
        items = torch.empty(many + 1, dtype=torch.int64, device=p.q.device)
        _launch(
            work.list_tiles, sequences, stream, (device, p.offsets.dtype, size, rising),
            p.offsets, items, sequences, total, p.longest, many, size, work.CHUNK, rising,
        )  # fmt: skip
    together = max(1, min(sequences * heads, L2_BYTES // max(1, p.longest * dim * 4)))
    batch = (
        p.offsets, contexts, targets, items, counter, sequences, tiles, together, total, p.longest, p.group, p.window,
        p.whole,
    )  # fmt: skip
    return batch, max(1, min(_multiprocessors(device), many * heads)), listed
