#pragma once

#include "layer/cpu/kernels.h"

// What dropout keeps, from a counter: any element by itself, so that loops are vectorised and threads need no state.
namespace gr_ops::layer {
namespace {

// A bijection of 32 bits in which each bit of the input changes each bit of the output with a probability near 1/2
// (constants by C. Wellons' search, "lowbias32").
inline uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

inline void dropout_mask(int64_t first, int64_t last, uint64_t seed, uint32_t threshold, unsigned char* to) {
  for (int64_t i = first; i < last;) {
    // Elements that share the upper half of their index: two rounds, each with a half of the seed.
    const auto upper = static_cast<uint64_t>(i) >> 32;
    const int64_t end = static_cast<int64_t>((upper + 1) << 32) < last ? static_cast<int64_t>((upper + 1) << 32) : last;
    const uint32_t low = static_cast<uint32_t>(seed) + mixed(static_cast<uint32_t>(upper));
    const auto high = static_cast<uint32_t>(seed >> 32);
    const auto start = static_cast<uint32_t>(i);
    const auto count = static_cast<int64_t>(end - i);
    unsigned char* out = to + i;
    for (int64_t n = 0; n < count; ++n) {
      out[n] = mixed(mixed((start + static_cast<uint32_t>(n)) ^ low) ^ high) >= threshold;
    }
    i = end;
  }
}

}  // namespace
}  // namespace gr_ops::layer
