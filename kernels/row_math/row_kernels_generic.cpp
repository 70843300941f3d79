#include "row_math/rounding_draws.h"
#include "row_math/row_kernels.h"

#pragma GCC push_options
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between functions of this file only
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")

#define ROW_MATH_LANES 4

// The baseline of the architecture: SSE2 on x86_64, NEON on aarch64.
namespace row_math::generic {
#include "row_math/vectors.inl"

#if defined(__aarch64__)
#include "row_math/neon.inl"
#else
#include "row_math/half_software.inl"

#include "row_math/lanes.inl"
#endif

#include "row_math/square_roots.inl"

#include "row_math/columns.inl"

#include "row_math/optimizer_steps.inl"

#include "row_math/stochastic_rounding.inl"

#include "row_math/row_kernels.inl"
}  // namespace row_math::generic
#pragma GCC pop_options
