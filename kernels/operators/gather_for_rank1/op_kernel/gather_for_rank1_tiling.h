#pragma once
#include <cstdint>

struct GatherForRank1TilingData {
  int64_t length;  // of x
  int64_t count;   // of index and y
  int64_t countPerCore;
  uint32_t tileElements;  // indices that are looked up together
  uint32_t tableBytes;    // resident: x with a block of zeros on both sides
};
