"""A compiled kernel on a device, and from arguments to its launch."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from gr_ops.cuda.cubins import driver, store
from gr_ops.cuda.cubins.facts import facts_of
from gr_ops.cuda.kernel import Kernel

NUMBERS = {
    "i1": "?",
    "u1": "?",
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "fp32": "f",
    "fp64": "d",
}
POINTER, MAP = "Q", f"{driver.MAP_BYTES}s"
KEPT = 4096  # maps of tiles
SCRATCH = 2  # addresses behind all arguments, of memory that none of our kernels asks for


@dataclass(frozen=True)
class Loaded:
    compiled: store.Compiled
    function: ctypes.c_void_p
    maps: dict[Any, tuple[Any, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Kernel, arguments: Sequence[Any], options: dict[str, int], device: int) -> Loaded:
        compiled = store.find(kernel, facts_of(arguments), options)
        return cls(compiled, driver.load(compiled.cubin, compiled.function, compiled.shared, device))

    @cached_property
    def tiles(self) -> dict[int, dict[str, Any]]:
        """By the arguments' numbers."""
        numbers = [n for n, kind in enumerate(self.compiled.types) if kind.startswith("tensordesc")]
        return dict(zip(numbers, self.compiled.tiles, strict=True))

    @cached_property
    def layout(self) -> struct.Struct:
        """Of the parameters in memory; raises where PTX has them elsewhere."""
        codes = []
        for kind in self.compiled.types:
            if kind.startswith("tensordesc"):
                rank = kind.split("]")[0].count(",") + 1
                codes += [MAP, *"i" * rank, *"q" * rank]
            elif kind != "constexpr":
                codes.append(POINTER if kind.startswith("*") else NUMBERS[kind])
        codes += [POINTER] * SCRATCH
        sizes = [struct.calcsize(f"<{code}") for code in codes]
        if sizes != [size for _, size in self.compiled.places]:
            raise RuntimeError(f"{self.compiled.function}: parameters of {self.compiled.places}, arguments of {sizes}")
        text, end = "<", 0
        for code, (offset, size) in zip(codes, self.compiled.places, strict=True):
            text += f"{offset - end}x{code}" if offset > end else code
            end = offset + size
        return struct.Struct(text)

    @cached_property
    def offsets(self) -> list[int]:
        return [offset for offset, _ in self.compiled.places]

    @cached_property
    def kinds(self) -> list[tuple[int, str]]:
        """Of the arguments that are parameters: number, and `*` for an address, `t` for a tile."""
        return [(n, kind[0]) for n, kind in enumerate(self.compiled.types) if kind != "constexpr"]

    def pack(self, arguments: Sequence[Any]) -> bytes:
        values: list[Any] = []
        for number, kind in self.kinds:
            x = arguments[number]
            if kind == "*":
                values.append(x.data_ptr())
            elif kind == "t":
                values += self._tile(number, x.base)
            else:
                values.append(x)
        return self.layout.pack(*values, *(0,) * SCRATCH)

    def _tile(self, number: int, x: torch.Tensor) -> tuple[Any, ...]:
        """The map, shape and strides. Memory comes round in training, so maps are kept for where they have been."""
        key = (number, x.data_ptr(), x.shape, x.stride())
        found = self.maps.get(key)
        if found is None:
            if len(self.maps) == KEPT:
                self.maps.clear()
            about = self.tiles[number]
            made = driver.tile_map(x, about["swizzle"], about["block_size"])
            found = self.maps[key] = (made, *x.shape, *x.stride())
        return found

    def launch(self, grid: tuple[int, int, int], stream: int, arguments: Sequence[Any]) -> None:
        about = self.compiled
        driver.launch(self.function, grid, about.threads, about.shared, stream, self.pack(arguments), self.offsets)
