"""The float32 sum of the gradient of queries in 16 bits, times slopes of the SiLU before them where those are given:
rounded once, where the other gradients are rounded before slopes too (slopes.py)."""

import triton
import triton.language as tl

from gr_ops.cuda.slope_codes import slopes_of


@triton.jit(do_not_specialize=["tokens"])
def round_sum(
    summed,
    codes,
    out,
    tokens,
    width,
    codes_stride,
    out_stride,
    CODED: tl.constexpr,
    M: tl.constexpr,
    P: tl.constexpr,
):
    # From the end on: what the kernel before has added last is still in the L2 cache.
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    row_M1 = (block.to(tl.int64) * M + tl.arange(0, M))[:, None]
    column_1P = tl.arange(0, P)[None, :]
    there_MP = (row_M1 < tokens) & (column_1P < width)
    sum_MP = tl.load(summed + row_M1 * width + column_1P, mask=there_MP, other=0.0)
    if CODED:
        sum_MP *= slopes_of(tl.load(codes + row_M1 * codes_stride + column_1P, mask=there_MP, other=0))
    tl.store(out + row_M1 * out_stride + column_1P, sum_MP.to(out.dtype.element_ty), mask=there_MP)


@triton.jit(do_not_specialize=["tokens", "eighths"])
def clear_sum(summed, tokens, eighths, SIZE: tl.constexpr):
    """Zeros, from the end on: the next kernel begins with what the L2 cache then holds. `eighths`: of a token's width;
    a mask that ends at multiples of 8 leaves stores of 16 bytes."""
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    place = block.to(tl.int64) * SIZE + tl.arange(0, SIZE)
    tl.store(summed + place, tl.zeros([SIZE], tl.float32), mask=place < tokens.to(tl.int64) * eighths * 8)
