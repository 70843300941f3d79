#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <type_traits>

// The inner loops of a prefix sum. The running base is one addition per block and everything else is off that chain, so
// the loop is as fast as its stores. A chunk's total does not depend on the base: the result of a scan is the same for
// any number of threads.
namespace gr_ops::cpu {

// Integers wrap around in their own width, everything else is summed in double and rounded once per output.
template <typename T>
struct SumType {
  using type = double;
};
template <>
struct SumType<int8_t> {
  using type = uint8_t;
};
template <>
struct SumType<uint8_t> {
  using type = uint8_t;
};
template <>
struct SumType<int16_t> {
  using type = uint16_t;
};
template <>
struct SumType<int32_t> {
  using type = uint32_t;
};
template <>
struct SumType<int64_t> {
  using type = uint64_t;
};
template <typename T>
using Sum = typename SumType<T>::type;

constexpr int64_t kScanBlock = 8;

// out[i] = base + in[0] + ... + in[i] if out is given; returns the sum of the chunk.
template <typename T>
Sum<T> scan_blocks(const T* in, T* out, int64_t count, Sum<T> base) {
  Sum<T> running = 0;
  int64_t i = 0;
  for (; i + kScanBlock <= count; i += kScanBlock) {
    Sum<T> prefix[kScanBlock];
    prefix[0] = static_cast<Sum<T>>(in[i]);
    for (int64_t j = 1; j < kScanBlock; ++j) {
      prefix[j] = static_cast<Sum<T>>(prefix[j - 1] + static_cast<Sum<T>>(in[i + j]));
    }
    if (out != nullptr) {
      for (int64_t j = 0; j < kScanBlock; ++j) out[i + j] = static_cast<T>(base + (running + prefix[j]));
    }
    running = static_cast<Sum<T>>(running + prefix[kScanBlock - 1]);
  }
  for (; i < count; ++i) {
    running = static_cast<Sum<T>>(running + static_cast<Sum<T>>(in[i]));
    if (out != nullptr) out[i] = static_cast<T>(base + running);
  }
  return running;
}

// next: 0, or `in` and `out` are in the cache, and the chunk that the thread adds up next is so many bytes behind `in`;
// those below ask for it line by line while they write. behind: how many elements of `in` the thread sums up right
// after these, into what is behind `out`: they are asked for as well, or each row of a matrix would wait for its first
// 4 KB.
template <typename T>
Sum<T> scan_chunk(const T* in, T* out, int64_t count, Sum<T> base, int64_t = 0, int64_t = 0) {
  return scan_blocks(in, out, count, base);
}

// The sum of the chunk, by the same additions as scan_chunk's. Those below ask for the lines of `out`, which is written
// next.
template <typename T>
Sum<T> total_chunk(const T* in, const T*, int64_t count) {
  return scan_blocks<T>(in, nullptr, count, Sum<T>(0));
}

// Lengths are int32 or int64: these, and fp32, are written for vector registers (scan.cpp).
template <>
uint32_t scan_chunk<int32_t>(const int32_t* in, int32_t* out, int64_t count, uint32_t base, int64_t next,
                             int64_t behind);
template <>
uint64_t scan_chunk<int64_t>(const int64_t* in, int64_t* out, int64_t count, uint64_t base, int64_t next,
                             int64_t behind);
template <>
double scan_chunk<float>(const float* in, float* out, int64_t count, double base, int64_t next, int64_t behind);
template <>
uint32_t total_chunk<int32_t>(const int32_t* in, const int32_t* out, int64_t count);
template <>
uint64_t total_chunk<int64_t>(const int64_t* in, const int64_t* out, int64_t count);
template <>
double total_chunk<float>(const float* in, const float* out, int64_t count);

}  // namespace gr_ops::cpu
