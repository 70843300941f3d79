// What the cores of one launch did, for TWIN_COUNTS: they run on the thread that launches them.
#pragma once
#include <cstdint>

namespace twin {

struct LaunchWork {
  uint64_t bytesRead = 0;  // of global memory; a scalar read counts its cache line once, as long as the core keeps it
  uint64_t bytesWritten = 0;
  uint64_t products = 0;  // multiply-adds of the cube units
  uint64_t hbmRead = 0;   // with TWIN_COUNTS_L2: of the bytes above, those that L2 does not serve
  uint64_t hbmWritten = 0;
};

inline thread_local LaunchWork launchWork;

constexpr uint64_t kCacheLine = 64;

}  // namespace twin
