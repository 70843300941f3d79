#if defined(__x86_64__)
#include "row_math/rounding_draws.h"
#include "row_math/row_kernels.h"

#pragma GCC push_options
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between functions of this file only
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>

#define ROW_MATH_LANES 8

namespace row_math::avx2 {
#include "row_math/vectors.inl"

#include "row_math/x86.inl"

#include "row_math/columns.inl"

#include "row_math/optimizer_steps.inl"

#include "row_math/stochastic_rounding.inl"

#include "row_math/row_kernels.inl"
}  // namespace row_math::avx2
#pragma GCC pop_options
#endif
