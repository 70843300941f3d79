#include "cumsum/scan.h"

#include <cstring>

#include "common/prefetch.h"
#include "common/vector_clones.h"

namespace gr_ops::cpu {
namespace {

typedef uint32_t UInt32x8 __attribute__((vector_size(32)));
typedef uint64_t UInt64x4 __attribute__((vector_size(32)));
typedef float Floatx4 __attribute__((vector_size(16)));
typedef double Doublex4 __attribute__((vector_size(32)));

// Lane i of a shifted vector is lane i - n of v, 0 for the first n lanes: index 8 (4) names a lane of the zero vector.
constexpr int64_t kLine = 64;
// The processor's own prefetcher stops at the end of each page. Bytes between a request and its use; measured.
constexpr int64_t kReadAhead = 4096;

#define GR_OPS_INLINE static inline __attribute__((always_inline))

GR_OPS_INLINE void step(UInt32x8& v, UInt32x8& bases) {
  const UInt32x8 zero = {};
  const UInt32x8 by_one = {8, 0, 1, 2, 3, 4, 5, 6}, by_two = {8, 8, 0, 1, 2, 3, 4, 5},
                 by_four = {8, 8, 8, 8, 0, 1, 2, 3};
  const UInt32x8 last = {7, 7, 7, 7, 7, 7, 7, 7};
  v += __builtin_shuffle(v, zero, by_one);
  v += __builtin_shuffle(v, zero, by_two);
  v += __builtin_shuffle(v, zero, by_four);
  const UInt32x8 sum = __builtin_shuffle(v, last);
  v += bases;
  bases += sum;
}

GR_OPS_INLINE void step(UInt64x4& v, UInt64x4& bases) {
  const UInt64x4 zero = {};
  const UInt64x4 by_one = {4, 0, 1, 2}, by_two = {4, 4, 0, 1}, last = {3, 3, 3, 3};
  v += __builtin_shuffle(v, zero, by_one);
  v += __builtin_shuffle(v, zero, by_two);
  const UInt64x4 sum = __builtin_shuffle(v, last);
  v += bases;
  bases += sum;
}

// A line of `in`, at `i`.
template <typename V, typename Word>
GR_OPS_INLINE void scan_line(const Word* in, Word* out, int64_t i, V& bases) {
  constexpr int64_t lanes = sizeof(V) / sizeof(Word);
  for (int64_t j = i; j < i + kLine / static_cast<int64_t>(sizeof(Word)); j += lanes) {
    V v;
    std::memcpy(&v, in + j, sizeof(v));
    step(v, bases);
    std::memcpy(out + j, &v, sizeof(v));
  }
}

template <typename V, typename Word>
GR_OPS_INLINE Word scan(const Word* in, Word* out, int64_t count, Word base, int64_t next, int64_t behind) {
  constexpr int64_t line = kLine / static_cast<int64_t>(sizeof(Word));
  constexpr int64_t read = kReadAhead / static_cast<int64_t>(sizeof(Word));
  constexpr int64_t write = kWriteAhead / static_cast<int64_t>(sizeof(Word));
  V bases = V{} + base;
  int64_t i = 0;
  for (; next != 0 && i + line <= count; i += line) {
    prefetch_lines(in + i, next, kLine);
    scan_line(in, out, i, bases);
  }
  for (; i + line <= count && i + read + line <= count + behind; i += line) {
    __builtin_prefetch(in + i + read, 0, 2);
    fetch_line_to_write(out + i + write);
    scan_line(in, out, i, bases);
  }
  for (; i + line <= count; i += line) scan_line(in, out, i, bases);
  Word running = bases[0];
  for (; i < count; ++i) {
    running += in[i];
    out[i] = running;
  }
  return running - base;
}

GR_OPS_VECTOR_CLONES
uint32_t scan_words(const uint32_t* in, uint32_t* out, int64_t count, uint32_t base, int64_t next, int64_t behind) {
  return scan<UInt32x8>(in, out, count, base, next, behind);
}

GR_OPS_VECTOR_CLONES
uint64_t scan_longs(const uint64_t* in, uint64_t* out, int64_t count, uint64_t base, int64_t next, int64_t behind) {
  return scan<UInt64x4>(in, out, count, base, next, behind);
}

// The sums of four floats, in double; `running` is that of all before, to which theirs is added.
GR_OPS_INLINE void scan_four(const float* in, float* out, const Doublex4& base, Doublex4& running) {
  typedef int64_t Lanes __attribute__((vector_size(32)));
  const Doublex4 zero = {};
  const Lanes by_one = {4, 0, 1, 2}, by_two = {4, 4, 0, 1}, last = {3, 3, 3, 3};
  Floatx4 narrow;
  std::memcpy(&narrow, in, sizeof(narrow));
  Doublex4 v = __builtin_convertvector(narrow, Doublex4);
  v += __builtin_shuffle(v, zero, by_one);
  v += __builtin_shuffle(v, zero, by_two);
  narrow = __builtin_convertvector(base + (running + v), Floatx4);
  std::memcpy(out, &narrow, sizeof(narrow));
  running += __builtin_shuffle(v, last);
}

GR_OPS_VECTOR_CLONES
double scan_floats(const float* in, float* out, int64_t count, double base, int64_t next, int64_t behind) {
  constexpr int64_t line = kLine / static_cast<int64_t>(sizeof(float));
  constexpr int64_t read = kReadAhead / static_cast<int64_t>(sizeof(float));
  constexpr int64_t write = kWriteAhead / static_cast<int64_t>(sizeof(float));
  const Doublex4 bases = Doublex4{} + base;
  Doublex4 running = {};
  int64_t i = 0;
  for (; i + line <= count; i += line) {
    if (next != 0) {
      prefetch_lines(in + i, next, kLine);
    } else if (i + read + line <= count + behind) {
      __builtin_prefetch(in + i + read, 0, 2);
      fetch_line_to_write(out + i + write);
    }
    for (int64_t j = i; j < i + line; j += 4) scan_four(in + j, out + j, bases, running);
  }
  double sum = running[0];
  for (; i < count; ++i) {
    sum += static_cast<double>(in[i]);
    out[i] = static_cast<float>(base + sum);
  }
  return sum;
}

// Asks for lines of `out` while it adds up those of `in`, one for one.
template <typename V, typename Word>
GR_OPS_INLINE Word total(const Word* in, const Word* out, int64_t count) {
  constexpr int64_t lanes = sizeof(V) / sizeof(Word);
  constexpr int64_t line = kLine / static_cast<int64_t>(sizeof(Word));
  V sums = {};
  int64_t i = 0;
  for (; i + line <= count; i += line) {
    fetch_line_to_write(out + i);
    for (int64_t j = i; j < i + line; j += lanes) {
      V v;
      std::memcpy(&v, in + j, sizeof(v));
      sums += v;
    }
  }
  Word sum = 0;
  for (int64_t lane = 0; lane < lanes; ++lane) sum += sums[lane];
  for (; i < count; ++i) sum += in[i];
  return sum;
}

GR_OPS_VECTOR_CLONES
uint32_t total_words(const uint32_t* in, const uint32_t* out, int64_t count) { return total<UInt32x8>(in, out, count); }

GR_OPS_VECTOR_CLONES
uint64_t total_longs(const uint64_t* in, const uint64_t* out, int64_t count) { return total<UInt64x4>(in, out, count); }

// By the same additions as in scan_floats.
GR_OPS_VECTOR_CLONES
double total_floats(const float* in, const float* out, int64_t count) {
  typedef int64_t Lanes __attribute__((vector_size(32)));
  constexpr int64_t line = kLine / static_cast<int64_t>(sizeof(float));
  const Lanes neighbours = {1, 0, 3, 2}, halves = {2, 3, 0, 1};
  Doublex4 running = {};
  int64_t i = 0;
  for (; i + line <= count; i += line) {
    fetch_line_to_write(out + i);
    for (int64_t j = i; j < i + line; j += 4) {
      Floatx4 narrow;
      std::memcpy(&narrow, in + j, sizeof(narrow));
      Doublex4 v = __builtin_convertvector(narrow, Doublex4);
      v += __builtin_shuffle(v, neighbours);
      v += __builtin_shuffle(v, halves);
      running += v;
    }
  }
  double sum = running[0];
  for (; i < count; ++i) sum += static_cast<double>(in[i]);
  return sum;
}

}  // namespace

template <>
uint32_t scan_chunk<int32_t>(const int32_t* in, int32_t* out, int64_t count, uint32_t base, int64_t next,
                             int64_t behind) {
  return scan_words(reinterpret_cast<const uint32_t*>(in), reinterpret_cast<uint32_t*>(out), count, base, next, behind);
}

template <>
uint64_t scan_chunk<int64_t>(const int64_t* in, int64_t* out, int64_t count, uint64_t base, int64_t next,
                             int64_t behind) {
  return scan_longs(reinterpret_cast<const uint64_t*>(in), reinterpret_cast<uint64_t*>(out), count, base, next, behind);
}

template <>
double scan_chunk<float>(const float* in, float* out, int64_t count, double base, int64_t next, int64_t behind) {
  return scan_floats(in, out, count, base, next, behind);
}

template <>
uint32_t total_chunk<int32_t>(const int32_t* in, const int32_t* out, int64_t count) {
  return total_words(reinterpret_cast<const uint32_t*>(in), reinterpret_cast<const uint32_t*>(out), count);
}

template <>
uint64_t total_chunk<int64_t>(const int64_t* in, const int64_t* out, int64_t count) {
  return total_longs(reinterpret_cast<const uint64_t*>(in), reinterpret_cast<const uint64_t*>(out), count);
}

template <>
double total_chunk<float>(const float* in, const float* out, int64_t count) {
  return total_floats(in, out, count);
}

}  // namespace gr_ops::cpu
