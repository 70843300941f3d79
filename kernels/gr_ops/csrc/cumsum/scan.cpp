#include "cumsum/scan.h"

#include <cstring>

#include "common/vector_clones.h"

namespace gr_ops::cpu {
namespace {

typedef uint32_t UInt32x8 __attribute__((vector_size(32)));
typedef uint64_t UInt64x4 __attribute__((vector_size(32)));

// Lane i of a shifted vector is lane i - n of v, 0 for the first n lanes: index 8 (4) names a lane of the zero vector.
GR_OPS_VECTOR_CLONES
uint32_t scan_words(const uint32_t* in, uint32_t* out, int64_t count, uint32_t base) {
  const UInt32x8 zero = {};
  const UInt32x8 by_one = {8, 0, 1, 2, 3, 4, 5, 6}, by_two = {8, 8, 0, 1, 2, 3, 4, 5},
                 by_four = {8, 8, 8, 8, 0, 1, 2, 3};
  const UInt32x8 last = {7, 7, 7, 7, 7, 7, 7, 7};
  UInt32x8 bases = {base, base, base, base, base, base, base, base};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    UInt32x8 v;
    std::memcpy(&v, in + i, sizeof(v));
    v += __builtin_shuffle(v, zero, by_one);
    v += __builtin_shuffle(v, zero, by_two);
    v += __builtin_shuffle(v, zero, by_four);
    const UInt32x8 result = bases + v;
    bases += __builtin_shuffle(v, last);
    std::memcpy(out + i, &result, sizeof(result));
  }
  uint32_t running = bases[0];
  for (; i < count; ++i) {
    running += in[i];
    out[i] = running;
  }
  return running - base;
}

GR_OPS_VECTOR_CLONES
uint64_t scan_longs(const uint64_t* in, uint64_t* out, int64_t count, uint64_t base) {
  const UInt64x4 zero = {};
  const UInt64x4 by_one = {4, 0, 1, 2}, by_two = {4, 4, 0, 1}, last = {3, 3, 3, 3};
  UInt64x4 bases = {base, base, base, base};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    UInt64x4 v;
    std::memcpy(&v, in + i, sizeof(v));
    v += __builtin_shuffle(v, zero, by_one);
    v += __builtin_shuffle(v, zero, by_two);
    const UInt64x4 result = bases + v;
    bases += __builtin_shuffle(v, last);
    std::memcpy(out + i, &result, sizeof(result));
  }
  uint64_t running = bases[0];
  for (; i < count; ++i) {
    running += in[i];
    out[i] = running;
  }
  return running - base;
}

// Asked for ahead of use: the processor's own prefetcher alone brings 0.110 ms for 8 MB to what takes 0.083 here.
template <typename Word>
inline __attribute__((always_inline)) Word total(const Word* in, int64_t count) {
  constexpr int64_t line = 64 / sizeof(Word), block = 8 * line, ahead = 16 * line;
  Word sum = 0;
  int64_t i = 0;
  for (; i + block <= count; i += block) {
    for (int64_t j = 0; j < block; j += line) __builtin_prefetch(in + i + ahead + j);
    for (int64_t j = 0; j < block; ++j) sum += in[i + j];
  }
  for (; i < count; ++i) sum += in[i];
  return sum;
}

GR_OPS_VECTOR_CLONES
uint32_t total_words(const uint32_t* in, int64_t count) { return total(in, count); }

GR_OPS_VECTOR_CLONES
uint64_t total_longs(const uint64_t* in, int64_t count) { return total(in, count); }

}  // namespace

template <>
uint32_t scan_chunk<int32_t>(const int32_t* in, int32_t* out, int64_t count, uint32_t base) {
  const auto* words = reinterpret_cast<const uint32_t*>(in);
  return out == nullptr ? total_words(words, count) : scan_words(words, reinterpret_cast<uint32_t*>(out), count, base);
}

template <>
uint64_t scan_chunk<int64_t>(const int64_t* in, int64_t* out, int64_t count, uint64_t base) {
  const auto* longs = reinterpret_cast<const uint64_t*>(in);
  return out == nullptr ? total_longs(longs, count) : scan_longs(longs, reinterpret_cast<uint64_t*>(out), count, base);
}

}  // namespace gr_ops::cpu
