#pragma once

#include <cstdint>

namespace gr_ops {

// sums[r] of `rows` rows of `batch` lengths, which may wrap around; returns all bits that are set in one of the
// lengths.
int32_t sum_lengths(const int32_t* lengths, int64_t rows, int64_t batch, int64_t* sums);
int64_t sum_lengths(const int64_t* lengths, int64_t rows, int64_t batch, int64_t* sums);

}  // namespace gr_ops
