"""Slopes of the SiLU that queries, keys and values come from (slope_codes.py): where a layer gives them, gradients are
multiplied by them as they are written, and are those of the product before SiLU."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.slope_codes import STEPS, ZERO

_steps, _zero = gl.constexpr(STEPS), gl.constexpr(ZERO)


@struct
class Slopes:
    codes: gl.tensor  # uint8; where there are none, never read
    stride: gl.tensor
    ON: gl.constexpr

    @gluon.jit
    def times(self, values, row, column, inside):
        """`values` of these rows and columns, of 16 bits: with slopes they are rounded twice."""
        if self.ON:
            codes = gl.load(self.codes + row * self.stride + column, mask=inside, other=_zero)
            slopes = (codes.to(gl.float32) - _zero) * (1.0 / _steps)
            values = (values.to(gl.float32) * slopes).to(values.dtype)
        return values
