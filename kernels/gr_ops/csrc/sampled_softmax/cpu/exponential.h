#pragma once

#include "hstu/cpu/vector.h"

// e^x of x <= 0, to 2e-7 of itself in float; 0 from -87 down, NaN where x is NaN.
namespace gr_ops::sampled_softmax {
namespace {

using hstu::IntVectorF;
using hstu::VectorD;
using hstu::VectorF;

inline VectorF exponential(VectorF x) {
  using hstu::splat;
  const VectorF shifted = x * splat(1.44269504f) + splat(12582912.0f);  // 1.5 * 2^23: an integer n, in the low bits
  const VectorF n = shifted - splat(12582912.0f);
  // x - n log 2, of two parts: the first one has few bits, so that its product is exact.
  const VectorF r = x - n * splat(0.693359375f) + n * splat(2.12194440e-4f);
  VectorF p = splat(1.0f / 5040);  // Taylor's series: |r| is at most log 2 / 2
  p = p * r + splat(1.0f / 720);
  p = p * r + splat(1.0f / 120);
  p = p * r + splat(1.0f / 24);
  p = p * r + splat(1.0f / 6);
  p = p * r + splat(0.5f);
  p = p * r + splat(1.0f);
  p = p * r + splat(1.0f);
  const IntVectorF power = reinterpret_cast<IntVectorF>(p) + (reinterpret_cast<IntVectorF>(shifted) << 23);
  const VectorF e = x < splat(-87.0f) ? VectorF{} : reinterpret_cast<VectorF>(power);
  return x == x ? e : x;
}

inline VectorD exponential(VectorD x) {
  VectorD result;
  for (int i = 0; i < hstu::Lanes<double>::count; ++i) result[i] = __builtin_exp(x[i]);
  return result;
}

inline float log_of(float x) { return __builtin_logf(x); }
inline double log_of(double x) { return __builtin_log(x); }
inline float log_of_one_and(float x) { return __builtin_log1pf(x); }
inline double log_of_one_and(double x) { return __builtin_log1p(x); }

}  // namespace
}  // namespace gr_ops::sampled_softmax
