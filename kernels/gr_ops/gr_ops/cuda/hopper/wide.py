"""What the two kernels for the gradients of heads wider than 128 share.

The gradients of keys and of values, 64 x 256 numbers each, fill the registers of a warpgroup each, so that a program
has 64 keys (wide_keys.py) where that of backward.py has 128. What it then added to the gradient of queries in memory
would be twice as much, and the L2 cache takes no more: with five products in one kernel 8 rows of 4,096 tokens took
1.97 ms on an H100 (1.37 without the additions), with seven in two kernels 1.74. The other way, 128 keys and the
gradient of values by itself, took 2.02. Two kernels need no float32 sums in memory, and give the same bits every time.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from gr_ops.cuda.hopper.batch import tanh
from gr_ops.cuda.hopper.gradient_memory import HALF
from gr_ops.cuda.hopper.slopes import Slopes


@gluon.jit
def slope_of(score, half):
    """Of SiLU; in float16: between -0.1 and 1.1, half the registers, an eighth of bfloat16's error."""
    h = score * half
    t = tanh(h)
    slope = 0.5 * t + 0.5
    return (slope + (h * t + h) * (1.0 - slope)).to(gl.float16)


@gluon.jit
def in_runs(values, P: gl.constexpr):
    """[64, P] of 16 bits as wgmma leaves them, so that a thread has 8 columns side by side. Warps keep their rows, so
    that this takes 2 KB of shared memory; more is not left."""
    layout: gl.constexpr = gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4], [8, 0], [0, 32], [0, 64], [0, 128]],
        lane_bases=[[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[16, 0], [32, 0]],
        block_bases=[],
        shape=[HALF, P],
    )
    return gl.convert_layout(values, layout)


@gluon.jit
def store(out, values, stride, slopes: Slopes, item, first, D: gl.constexpr, P: gl.constexpr):
    """[64, P] of 16 bits, times slopes."""
    layout: gl.constexpr = values.type.layout
    token = first + gl.arange(0, HALF, gl.SliceLayout(1, layout))
    column = gl.arange(0, P, gl.SliceLayout(0, layout))
    inside = (token < item.length)[:, None]
    if D != P:
        inside = inside & (column < D)[None, :]
    row = (item.begin + token).to(gl.int64)[:, None]
    place = item.head * D + column[None, :]
    gl.store(out + row * stride + place, slopes.times(values, row, place, inside), mask=inside)
