#pragma once

#include <cstdint>

namespace gr_ops::cpu {

constexpr int64_t kPickSpill = 16;

// Positions of the entries of index[0:count] that are in [low, low + size), in their order; returns how many there are.
// picked has room for count + kPickSpill. No branch depends on an entry.
int64_t pick_in_range(const int32_t* index, int64_t count, int64_t low, int64_t size, int32_t* picked);
int64_t pick_in_range(const int64_t* index, int64_t count, int64_t low, int64_t size, int32_t* picked);

}  // namespace gr_ops::cpu
