#pragma once

#include "hstu/cpu/vector.h"

namespace gr_ops::hstu {
namespace {

// sigmoid(s) = 1 / (1 + 2^t), t = -s log2(e); exactly 0 where 2^t would overflow, NaN where s is NaN. Precise: relative
// error 7.5e-8 of 2^t (below an ulp of float); otherwise 1.4e-4 at most, for results that are rounded to bfloat16,
// whose half ulp is 2e-3 or more.
#if defined(__AVX512F__)

template <bool Precise>
inline VectorF sigmoid(VectorF s) {
  const __m512 t = (__m512)(s * splat(-1.44269504f));
  const __m512 f = _mm512_reduce_ps(t, 0x09);  // t - floor(t); vscalefps takes the floor itself
  __m512 p;
  if constexpr (Precise) {
    p = _mm512_set1_ps(0.0018775764619931579f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.008989340625703335f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.05582631751894951f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.24015361070632935f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.6931530833244324f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.9999999403953552f));
  } else {
    p = _mm512_set1_ps(0.07802452f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.22606716f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.69583354f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.99992522f));
  }
  const __m512 d = _mm512_add_ps(_mm512_scalef_ps(p, t), _mm512_set1_ps(1.0f));
  __m512 r = _mm512_rcp14_ps(d);  // 6e-5; exact for 1, so that s (1 - sigma) vanishes for large s, and for infinity
  if constexpr (Precise) {
    const __mmask16 finite = _mm512_cmp_ps_mask(t, _mm512_set1_ps(127.0f), _CMP_NGE_UQ);
    r = _mm512_maskz_mul_ps(finite, r, _mm512_fnmadd_ps(d, r, _mm512_set1_ps(2.0f)));
  }
  return (VectorF)r;
}

#else

template <bool Precise>
inline VectorF sigmoid(VectorF s) {
  VectorF t = s * splat(-1.44269504f);
  t = t > splat(128.0f) ? splat(128.0f) : t;  // 2^128 is inf, so the quotient is 0
  t = t < splat(-126.0f) ? splat(-126.0f) : t;
  const VectorF shifted = t + splat(12582912.0f);  // 1.5 * 2^23: rounds to an integer, held in the low bits
  const VectorF f = t - (shifted - splat(12582912.0f));
  VectorF p;
  if constexpr (Precise) {
    p = splat(0.001326472614891827f);
    p = p * f + splat(0.009671512991189957f);
    p = p * f + splat(0.05550733581185341f);
  } else {
    p = splat(0.009671512991189957f);
    p = p * f + splat(0.05550733581185341f);
  }
  p = p * f + splat(0.24022242426872253f);
  p = p * f + splat(0.6931470036506653f);
  p = p * f + splat(1.0f);
  const IntVectorF power = reinterpret_cast<IntVectorF>(p) + (reinterpret_cast<IntVectorF>(shifted) << 23);
  const VectorF e = s == s ? reinterpret_cast<VectorF>(power) : s;
  return splat(1.0f) / (splat(1.0f) + e);
}

#endif

template <bool Precise>
inline VectorD sigmoid(VectorD s) {
  VectorD result;
  for (int i = 0; i < Lanes<double>::count; ++i) result[i] = 1.0 / (1.0 + __builtin_exp(-s[i]));
  return result;
}

}  // namespace
}  // namespace gr_ops::hstu
