"""The float32 sum of the gradient of queries in 16 bits, times slopes of the SiLU before them where those are given."""

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
    row_M1 = (tl.program_id(0).to(tl.int64) * M + tl.arange(0, M))[:, None]
    column_1P = tl.arange(0, P)[None, :]
    there_MP = (row_M1 < tokens) & (column_1P < width)
    sum_MP = tl.load(summed + row_M1 * width + column_1P, mask=there_MP, other=0.0)
    if CODED:
        sum_MP *= slopes_of(tl.load(codes + row_M1 * codes_stride + column_1P, mask=there_MP, other=0))
    tl.store(out + row_M1 * out_stride + column_1P, sum_MP.to(out.dtype.element_ty), mask=there_MP)
