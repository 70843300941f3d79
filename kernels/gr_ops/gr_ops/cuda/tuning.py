"""The shapes of a kernel's tiles: the fastest of those that fit, or always the same where bits must repeat."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources

from gr_ops.cuda import launch_cache
from gr_ops.cuda.specialization import Specialization

HOPPER = 227 * 1024  # bytes of shared memory for one program


class Tuned:
    """A kernel with several shapes of its tiles. The time of each decides, once per kind of problem and length: tiles
    that win where a row has three of them lose where it has a hundred.

    Another shape sums in another order. So with deterministic algorithms, and in Triton's interpreter, which has no
    times to compare, it is the first shape that fits. `shared_rows` counts those that a program has in shared memory.
    """

    def __init__(self, kernel: Any, configs: list[triton.Config], shared_rows: Callable[..., int]) -> None:
        self.kernel, self.configs, self.shared_rows = kernel, configs, shared_rows
        self._tuners: dict[tuple[Any, ...], Autotuner] = {}
        self._best: dict[tuple[Any, ...], triton.Config] = {}

    def at(self, grid: Any, fixed: bool, longest: int) -> Callable[..., None]:
        """The kernel for rows of up to `longest` tokens."""
        return partial(self._launch, grid, fixed, longest)

    def _launch(self, grid: Any, fixed: bool, longest: int, *arguments: Any, **named: Any) -> None:
        if fixed or torch.are_deterministic_algorithms_enabled() or not isinstance(self.kernel, triton.JITFunction):
            self._launch_first(grid, *arguments, **named)
            return
        length, device = length_class(longest), arguments[0].device.index
        key = (length, device, launch_cache.of_values(arguments), *named.items())
        config = self._best.get(key)
        if config is None:
            tuner = self._tuner(length, named["S"])
            tuner[grid](*arguments, **named)
            self._best[key] = tuner.best_config
            return
        every = {**named, **config.kwargs}
        constants = tuple(every[name] for name in self.kernel.arg_names[len(arguments) :])
        options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
        size = grid(config.kwargs) if callable(grid) else grid
        launch_cache.launch(self.kernel, size, key, (*arguments, *constants), device, **options)

    def _launch_first(self, grid: Any, *arguments: Any, **named: Any) -> None:
        fitting = self._fitting(self.configs, {"q": arguments[0]}, **named)
        for config in fitting:
            more = {"num_warps": config.num_warps, "num_stages": config.num_stages}
            try:
                self.kernel[grid](*arguments, **named, **config.kwargs, **more)
                return
            except OutOfResources:  # what the compiler adds is known when it has compiled, the same every time
                if config is fitting[-1]:
                    raise

    def _tuner(self, length: int, specialization: Specialization) -> Autotuner:
        # At the first launch: an Autotuner looks for a GPU when it is made.
        key = (length, *specialization.tuning)
        if key not in self._tuners:
            self._tuners[key] = Autotuner(
                self.kernel,
                self.kernel.arg_names,
                self.configs,
                [],  # it tells types apart by itself
                None,
                None,
                prune_configs_by={"early_config_prune": self._fitting},
                do_bench=_timed,
            )
        return self._tuners[key]

    def _fitting(self, configs: list[triton.Config], arguments: dict[str, Any], **named: Any) -> list[triton.Config]:
        s: Specialization = named["S"]
        # Of queries and values in the mean, in all their parts.
        row = (s.padded + s.padded_value) // 2 * arguments["q"].element_size() * (2 if s.split else 1)
        small = [c for c in configs if row * self.shared_rows(c.num_stages, **c.kwargs) <= shared_memory()]
        return small or configs[-1:]


def length_class(longest: int) -> int:
    """Lengths that share their tiles: to the next power of two, from 256 to 16,384."""
    return min(max(triton.next_power_of_2(longest), 256), 16_384)


def tuned(configs: list[triton.Config], shared_rows: Callable[..., int]) -> Callable[[Any], Tuned]:
    return lambda kernel: Tuned(kernel, configs, shared_rows)


def tiles(*shapes: tuple[int, int, int, int]) -> list[triton.Config]:
    """Of Q queries, K keys, warps and stages each."""
    return [triton.Config({"Q": q, "K": k}, num_warps=warps, num_stages=stages) for q, k, warps, stages in shapes]


@cache
def shared_memory() -> int:
    """Bytes that one program can have."""
    if not torch.cuda.is_available():
        return HOPPER
    utils = triton.runtime.driver.active.utils
    return int(utils.get_device_properties(torch.cuda.current_device())["max_shared_mem"])


def _timed(call: Callable[[], None], quantiles: tuple[float, ...]) -> list[float]:
    return triton.testing.do_bench(call, quantiles=quantiles)
