"""CUDA's driver by its C interface (libcuda.so.1): modules, launches, descriptions of tiles for TMA."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

# Of cuda.h: CUdevice_attribute, CUfunction_attribute, CUfunc_cache, CUtensorMap*.
MAX_SHARED_OPTIN, SHARED_SIZE, MAX_DYNAMIC_SHARED = 97, 1, 8
PREFER_SHARED = 1
TYPES = {torch.float16: 6, torch.float32: 7, torch.bfloat16: 9}
NO_INTERLEAVE, PROMOTE_128_BYTES, FILL_WITH_ZERO = 0, 2, 0
MAP_BYTES, MAP_ALIGNMENT = 128, 64
DEFAULT_SHARED = 48 << 10


@cache
def _cuda() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int, what: str) -> None:
    if code:
        text = ctypes.c_char_p()
        _cuda().cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: CUDA error {code}, {(text.value or b'unknown').decode()}")


def load(cubin: bytes, name: str, shared: int, device: int) -> ctypes.c_void_p:
    """The function of a module, on the device, which may have `shared` bytes of dynamic shared memory."""
    cuda, module, function = _cuda(), ctypes.c_void_p(), ctypes.c_void_p()
    with torch.cuda.device(device):
        torch.cuda.current_stream()  # a context
        _check(cuda.cuModuleLoadData(ctypes.byref(module), cubin), f"loading {name}")
        _check(cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), f"finding {name}")
        most, static = ctypes.c_int(), ctypes.c_int()
        _check(cuda.cuDeviceGetAttribute(ctypes.byref(most), MAX_SHARED_OPTIN, device), "a device's shared memory")
        _check(cuda.cuFuncGetAttribute(ctypes.byref(static), SHARED_SIZE, function), "a function's shared memory")
        if shared > most.value - static.value:
            raise RuntimeError(f"{name} takes {shared} bytes of shared memory, of {most.value} that the device has")
        if shared > DEFAULT_SHARED:
            _check(cuda.cuFuncSetCacheConfig(function, PREFER_SHARED), "preferring shared memory")
            _check(cuda.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, most.value - static.value), "shared memory")
    return function


def launch(
    function: ctypes.c_void_p,
    grid: tuple[int, int, int],
    threads: int,
    shared: int,
    stream: int,
    parameters: bytes,
    offsets: Sequence[int],
) -> None:
    """`parameters`: all of them, each at its offset. The driver is told where each one is, and not where all of them
    begin: it places those of 64-byte alignment by where they will lie on the device."""
    begin = ctypes.cast(ctypes.c_char_p(parameters), ctypes.c_void_p).value or 0
    places = struct.pack(f"{len(offsets)}Q", *[begin + offset for offset in offsets])
    code = _cuda().cuLaunchKernel(function, *grid, threads, 1, 1, shared, ctypes.c_void_p(stream), places, None)
    _check(code, "a launch")


def tile_map(base: torch.Tensor, swizzle: int, block: Sequence[int]) -> bytes:
    """A CUtensorMap: how TMA finds blocks of a tensor, and lays them down in shared memory; zeros beyond its end."""
    rank, width = base.dim(), base.element_size()
    room = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
    begin = -ctypes.addressof(room) % MAP_ALIGNMENT
    shape, strides = base.shape[::-1], base.stride()[-2::-1]  # the driver's fastest dimension is the first
    code = _cuda().cuTensorMapEncodeTiled(
        ctypes.byref(room, begin),
        TYPES[base.dtype],
        rank,
        ctypes.c_void_p(base.data_ptr()),
        (ctypes.c_uint64 * rank)(*shape),
        (ctypes.c_uint64 * rank)(*(step * width for step in strides)),
        (ctypes.c_uint32 * rank)(*reversed(block)),
        (ctypes.c_uint32 * rank)(*(1,) * rank),
        NO_INTERLEAVE,
        swizzle,
        PROMOTE_128_BYTES,
        FILL_WITH_ZERO,
    )
    if code:
        _check(code, f"a tile of {list(block)} of {base.dtype} {list(base.shape)}, strides {list(base.stride())}")
    return room.raw[begin : begin + MAP_BYTES]
