"""What dropout keeps, from a seed and a counter: the elements that the CPU's operator keeps (csrc/layer/cpu)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from gr_ops.cuda.layer.launch import launch

ELEMENTS = 4096  # of a program; divides 2^32


@triton.jit
def mixed(x):
    """A bijection of 32 bits (constants by C. Wellons' search, "lowbias32")."""
    x = (x ^ (x >> 16)) * tl.full([], 0x7FEB352D, tl.uint32)
    x = (x ^ (x >> 15)) * tl.full([], 0x846CA68B, tl.uint32)
    return x ^ (x >> 16)


@triton.jit
def of_bits(number):
    return tl.cast(number, tl.int32).to(tl.uint32, bitcast=True)


@triton.jit
def drawn(first, low, high, N: tl.constexpr):
    """32 bits of each of N elements from `first` on, a multiple of N; `low`, `high`: the halves of the seed."""
    upper = mixed((first >> 32).to(tl.uint32))  # one for all of them
    lower_N = (first & 0xFFFFFFFF).to(tl.uint32) + tl.arange(0, N).to(tl.uint32)
    return mixed(mixed(lower_N ^ (of_bits(low) + upper)) ^ of_bits(high))


@triton.jit(do_not_specialize=["low", "high", "threshold"])
def keep(out, elements, low, high, threshold, N: tl.constexpr):
    """`low`, `high`, `threshold`: unsigned numbers as signed ones of the same bits."""
    first = tl.program_id(0).to(tl.int64) * N
    place_N = tl.arange(0, N)
    kept_N = (drawn(first, low, high, N) >= of_bits(threshold)).to(tl.uint8)
    tl.store(out + first + place_N, kept_N, mask=place_N < elements - first)


def kept(out: torch.Tensor, p: float, seed: int) -> None:
    """Fills the contiguous bool tensor: an element is dropped with probability p."""
    values = (out.view(torch.uint8), out.numel(), *halves(seed, p), ELEMENTS)
    launch(keep, triton.cdiv(out.numel(), ELEMENTS), values, num_warps=4)


def halves(seed: int, p: float) -> tuple[int, int, int]:
    """Of the seed, and the threshold of p, as kernels take them."""
    bits = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, min(round(p * 2**32), 2**32 - 1))
    return _signed(bits[0]), _signed(bits[1]), _signed(bits[2])


def _signed(bits: int) -> int:
    """The same 32 bits: Triton takes what is larger for 64."""
    return bits - 2**32 if bits >= 2**31 else bits
