#if defined(__x86_64__)
#include "rows/kernels.h"

#pragma GCC push_options
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between functions of this file only
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")
#include <immintrin.h>

#define GR_OPS_AVX512

namespace hybrid_torchrec::rows::avx512 {
#include "row_math/vectors.inl"

#include "row_math/x86.inl"

#include "row_math/row_kernels.inl"

#include "rows/kernels.inl"
}  // namespace hybrid_torchrec::rows::avx512
#pragma GCC pop_options
#endif
