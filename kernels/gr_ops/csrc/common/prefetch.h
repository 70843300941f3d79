#pragma once

#include <algorithm>
#include <cstdint>

// Requests for cache lines ahead of their use. An address that does not exist does no harm.
namespace gr_ops {

// Asks for the start of a segment that is moved next: the processor sees by itself how a segment goes on, but not where
// the next one is.
inline void prefetch_segment(const char* start, int64_t bytes) {
  constexpr int64_t most = 1024;
  for (int64_t at = 0; at < std::min(bytes, most); at += 64) __builtin_prefetch(start + at);
}

// Asks for `bytes` from `start` + `distance` on, into the second cache: a core waits for more lines of it than of the
// first. What is there need not exist.
inline __attribute__((always_inline)) void prefetch_lines(const void* start, int64_t distance, int64_t bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(start) + static_cast<uintptr_t>(distance);
  for (int64_t at = 0; at < bytes; at += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(first + static_cast<uintptr_t>(at)), 0, 2);
  }
}

// Asks for a cache line that will be written. Compilers make a request to read of it for processors without the other
// instruction, to which it is no operation.
inline __attribute__((always_inline)) void fetch_line_to_write(const void* at) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

constexpr int64_t kWriteAhead = 2048;  // bytes between a request and its use; measured

// Asks for what is written behind `to`, by as much as is written now. The processor's own prefetcher stops at the end
// of each page: moves of 8 MB take 0.7 of the time with it.
inline __attribute__((always_inline)) void fetch_to_write(const char* to, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) {
    fetch_line_to_write(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(to + at) + kWriteAhead));
  }
}

}  // namespace gr_ops
