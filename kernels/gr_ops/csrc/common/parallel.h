#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

namespace gr_ops {

// Work below this many bytes is not worth waking a thread for.
constexpr int64_t kGrainBytes = 64 * 1024;

// Calls body(first, end) on chunks of [0, count), each of at least kGrainBytes.
template <typename Body>
void parallel_rows(int64_t count, int64_t bytes_per_row, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / std::max<int64_t>(1, bytes_per_row));
  if (count <= grain) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  at::parallel_for(0, count, grain, body);
}

// Asks for the start of a segment that is moved next: the processor sees by itself how a segment goes on, but not where
// the next one is.
inline void prefetch_segment(const char* start, int64_t bytes) {
  constexpr int64_t most = 1024;
  for (int64_t at = 0; at < std::min(bytes, most); at += 64) __builtin_prefetch(start + at);
}

}  // namespace gr_ops
