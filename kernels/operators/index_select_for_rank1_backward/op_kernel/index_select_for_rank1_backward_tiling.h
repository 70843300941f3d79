#pragma once
#include <cstdint>

struct IndexSelectForRank1BackwardTilingData {
  int64_t length;         // of x
  int64_t count;          // of index and grad_y
  int64_t countPerCore;   // partial sums: share of index; both plans: share of grad_index
  int64_t lengthPerCore;  // share of grad_x
  uint32_t tileElements;
  uint32_t sumElements;  // floats of x that a core sums up at a time
  uint32_t sorted;       // index ascends
  uint32_t reserved;
};
