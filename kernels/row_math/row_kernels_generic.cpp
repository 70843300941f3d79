#include "row_math/row_kernels.h"

#pragma GCC push_options
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between functions of this file only
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")

// The baseline of the architecture: SSE2 on x86_64, NEON on aarch64.
namespace gr_ops::rows::generic {
#include "row_math/vectors.inl"

#include "row_math/half_software.inl"

#include "row_math/lanes.inl"

#include "row_math/row_kernels.inl"
}  // namespace gr_ops::rows::generic
#pragma GCC pop_options
