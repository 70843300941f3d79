#include "rank1/pick.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace gr_ops::cpu {
namespace {

template <typename Index>
int64_t pick(const Index* index, int64_t first, int64_t count, int64_t low, int64_t size, int32_t* picked,
             int64_t found) {
  for (int64_t i = first; i < count; ++i) {
    picked[found] = static_cast<int32_t>(i);
    found += static_cast<uint64_t>(index[i]) - static_cast<uint64_t>(low) < static_cast<uint64_t>(size);
  }
  return found;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define GR_OPS_PICK_AVX512 __attribute__((target("avx512f")))

bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
}

GR_OPS_PICK_AVX512 inline __mmask8 in_range(__m512i entries, __m512i low, __m512i size) {
  return _mm512_cmplt_epu64_mask(_mm512_sub_epi64(entries, low), size);
}

GR_OPS_PICK_AVX512 inline __m512i load8(const int64_t* index) { return _mm512_loadu_si512(index); }
GR_OPS_PICK_AVX512 inline __m512i load8(const int32_t* index) {
  return _mm512_maskz_cvtepi32_epi64(0xff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index)));
}

// Sixteen at a time. The compressed positions are stored whole: the compressing store is slow on some processors.
template <typename Index>
GR_OPS_PICK_AVX512 int64_t pick_avx512(const Index* index, int64_t count, int64_t low, int64_t size, int32_t* picked) {
  const __m512i lows = _mm512_set1_epi64(low), sizes = _mm512_set1_epi64(size), step = _mm512_set1_epi32(16);
  __m512i positions = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int64_t found = 0;
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const unsigned mine = in_range(load8(index + i), lows, sizes) |
                          static_cast<unsigned>(in_range(load8(index + i + 8), lows, sizes)) << 8;
    _mm512_storeu_si512(picked + found, _mm512_maskz_compress_epi32(static_cast<__mmask16>(mine), positions));
    found += __builtin_popcount(mine);
    positions = _mm512_add_epi32(positions, step);
  }
  return pick(index, i, count, low, size, picked, found);
}
#endif

template <typename Index>
int64_t choose(const Index* index, int64_t count, int64_t low, int64_t size, int32_t* picked) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (has_avx512()) return pick_avx512(index, count, low, size, picked);
#endif
  return pick(index, 0, count, low, size, picked, 0);
}

}  // namespace

int64_t pick_in_range(const int32_t* index, int64_t count, int64_t low, int64_t size, int32_t* picked) {
  return choose(index, count, low, size, picked);
}

int64_t pick_in_range(const int64_t* index, int64_t count, int64_t low, int64_t size, int32_t* picked) {
  return choose(index, count, low, size, picked);
}

}  // namespace gr_ops::cpu
