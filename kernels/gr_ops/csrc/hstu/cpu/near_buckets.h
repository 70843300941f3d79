#pragma once

#include "hstu/cpu/head.h"
#include "hstu/cpu/vector.h"

// The buckets of times that lie near each other, without a branch: the table's first kNearBuckets entries stay in
// registers, and a line through the bits of the seconds, almost their logarithm, tells the bucket or the one before it
// (RelativeBias::near).
namespace gr_ops::hstu {
namespace {

#if defined(__AVX512F__)

class NearBuckets {
 public:
  explicit NearBuckets(const RelativeBias& bias)
      : slope_(_mm512_set1_ps(bias.slope)), start_(_mm512_set1_ps(bias.start)) {
    for (int i = 0; i < kNearBuckets / 16; ++i) {
      edges_[i] = _mm512_loadu_ps(bias.edges + i * 16);
      values_[i] = _mm512_loadu_ps(static_cast<const float*>(bias.time) + i * 16);
    }
  }

  // Of 16 numbers of seconds below RelativeBias::near.
  __m512i of(__m512i seconds) const {
    const __m512 at = _mm512_cvtepi32_ps(_mm512_max_epi32(seconds, _mm512_set1_epi32(1)));
    const __m512 bits = _mm512_cvtepi32_ps(_mm512_castps_si512(at));
    const __m512i line = _mm512_cvttps_epi32(_mm512_fmadd_ps(bits, slope_, start_));
    const __m512i bucket = _mm512_max_epi32(line, _mm512_setzero_si512());
    const __m512i next = _mm512_add_epi32(bucket, _mm512_set1_epi32(1));
    return _mm512_mask_mov_epi32(bucket, _mm512_cmp_ps_mask(at, pick(edges_, next), _CMP_GE_OQ), next);
  }

  __m512 values(__m512i buckets) const { return pick(values_, buckets); }

 private:
  static __m512 pick(const __m512 (&table)[4], __m512i at) {
    static_assert(kNearBuckets == 64);
    const __m512 low = _mm512_permutex2var_ps(table[0], at, table[1]);
    const __m512 high = _mm512_permutex2var_ps(table[2], at, table[3]);
    return _mm512_mask_mov_ps(low, _mm512_test_epi32_mask(at, _mm512_set1_epi32(32)), high);
  }

  __m512 edges_[kNearBuckets / 16], values_[kNearBuckets / 16], slope_, start_;
};

#endif

}  // namespace
}  // namespace gr_ops::hstu
