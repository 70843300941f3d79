"""Slopes of SiLU as a layer keeps them from its forward pass: 8 bits each, in place of the products that they are of.

code = round(slope * STEPS) + ZERO. Slopes are between -0.0998 and 1.0998, so codes between 0 and 254. 0, 1/2 and 1 are
exact, the others by 1/424; bfloat16 has the numbers from 1/2 to 1 by 1/512, and those above by 1/256.
"""

import triton
import triton.language as tl

STEPS, ZERO = 212, 21
_steps, _zero = tl.constexpr(STEPS), tl.constexpr(ZERO)


@triton.jit
def slopes_of(codes):
    return (codes.to(tl.float32) - _zero) * (1.0 / _steps)
