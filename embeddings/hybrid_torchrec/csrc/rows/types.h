#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "row_math/row_types.h"

// What the operators on rows of CPU tensors share.
namespace hybrid_torchrec {

using row_math::row_data;
using row_math::row_kernels;
using row_math::with_row_type;

inline void check_rows(const char* op, const at::Tensor& weights, const at::Tensor& slots) {
  const auto dtype = weights.scalar_type();
  TORCH_CHECK(weights.dim() == 2 && weights.is_contiguous(), op, ": weights must be contiguous, (C, D); got shape ",
              weights.sizes());
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, op,
              ": weights must be float32, float16 or bfloat16, got ", dtype);
  TORCH_CHECK(slots.dim() == 1 && slots.scalar_type() == at::kLong, op, ": slots must be int64, (L,); got ",
              slots.scalar_type(), " of shape ", slots.sizes());
}

[[noreturn]] inline void fail_slot(const char* op, const int64_t* slots, int64_t count, int64_t capacity) {
  const int64_t* bad = std::find_if(slots, slots + count, [&](int64_t s) { return s < 0 || s >= capacity; });
  TORCH_CHECK(false, op, ": slots[", bad - slots, "] is ", *bad, ", outside of the table's ", capacity, " slots");
}

// Slots of bag i are [offsets[i], offsets[i + 1]).
inline void check_offsets(const char* op, const at::Tensor& offsets, int64_t slots) {
  TORCH_CHECK(offsets.dim() == 1 && offsets.scalar_type() == at::kLong && offsets.numel() >= 1, op,
              ": offsets must be int64, (B + 1,); got ", offsets.scalar_type(), " of shape ", offsets.sizes());
  const int64_t* data = offsets.const_data_ptr<int64_t>();
  const int64_t bags = offsets.numel() - 1;
  TORCH_CHECK(data[0] == 0 && data[bags] == slots, op, ": offsets must go from 0 to ", slots, ", got ", data[0], " to ",
              data[bags]);
  for (int64_t i = 0; i < bags; ++i) {
    TORCH_CHECK(data[i] <= data[i + 1], op, ": offsets[", i + 1, "] is less than the one before");
  }
}

}  // namespace hybrid_torchrec
