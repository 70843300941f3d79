#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "rows/kernels.h"

// What the operators on rows of CPU tensors share.
namespace hybrid_torchrec {

// Calls body(const Row*) for the type in which a tensor holds its rows.
template <typename Body>
void with_row_type(at::ScalarType dtype, Body body) {
  if (dtype == at::kFloat) {
    body(static_cast<const float*>(nullptr));
  } else if (dtype == at::kHalf) {
    body(static_cast<const rows::Half*>(nullptr));
  } else if (dtype == at::kBFloat16) {
    body(static_cast<const rows::Bfloat16*>(nullptr));
  } else {
    TORCH_CHECK(false, "rows must be float32, float16 or bfloat16, got ", dtype);
  }
}

template <typename Row>
Row* row_data(const at::Tensor& tensor) {
  return static_cast<Row*>(tensor.mutable_data_ptr());
}

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

// Work below this many elements is not worth a second thread.
constexpr int64_t kSerialElements = 64 * 1024;

inline int64_t shares_of(int64_t elements) {
  return elements < kSerialElements || at::get_num_threads() == 1 ? 1 : at::get_num_threads() * 4;
}

}  // namespace hybrid_torchrec
