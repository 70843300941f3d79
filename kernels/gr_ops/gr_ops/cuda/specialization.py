"""What the compiler knows of a problem: one constexpr argument of each kernel in Triton, in place of a dozen.

Triton 3.2 has neither tuples nor structs of tensors as arguments; a hashable object of compile-time facts it has.
A kernel reads `S.value.heads`: its compilers wrap a constexpr in an object with `value`, its interpreter does not. What
it compares or multiplies with other constants it names first: `N: tl.constexpr = S.value.heads`.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_BIAS, RELATIVE, DENSE = 0, 1, 2  # bias


@dataclass(frozen=True)
class Specialization:
    """The facts of a problem that kernels are compiled for."""

    heads: int
    dim: int  # of queries and keys, and of values; with the next powers of two from 16 on
    value_dim: int
    padded: int
    padded_value: int
    mask: int = 0  # mask.LOWER, ...
    segments: bool = False  # some rows have contextual tokens or targets, or there is a window
    window: int = 0  # mask.HISTORY, ...
    bias: int = NO_BIAS
    scaled: bool = False  # alpha is not 1
    fast: bool = False  # the sigmoid by one instruction, whose error is below that of 16 bits
    varlen: bool = False  # keys have offsets of their own
    page_size: int = 0  # of a cache of keys; 0: there is none
    bias_heads: int = 0  # of a dense bias; 1: shared by all heads
    bias_rows: bool = False  # each sequence has its own bias
    mask_heads: int = 0  # the same for the user's mask
    mask_rows: bool = False
    precision: str = "tf32x3"  # of products of float32: precision.py
    split: bool = False  # q, k, v and the output's gradient are in two parts: split.py

    @property
    def value(self) -> Specialization:
        return self

    @property
    def tuning(self) -> tuple[int | bool, ...]:
        """What the fastest shape of tiles depends on."""
        masks = (self.segments, self.window, self.mask)
        products = (self.precision == "tf32", self.split)
        return self.dim, self.value_dim, self.bias, *masks, self.varlen, self.page_size, *products
