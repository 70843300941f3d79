#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>

#include <optional>
#include <vector>

#include "common/operators.h"

// Validation and shape rules of the jagged operators (docs/operators.md), shared by every
// back end and by the Meta kernels, so that a fake tensor is refused for the same reason as a real one.
// Symbols: B rows, K jagged dimensions, S1..SK padded lengths, L values, D inner elements.
namespace gr_ops {

constexpr size_t kMaxJaggedDims = 5;

// [B, S1..SK, trailing...] for values [L, trailing...]; raises on any fault of the arguments.
std::vector<c10::SymInt> dense_shape(const char* op, const at::Tensor& values, at::TensorList offsets,
                                     c10::SymIntArrayRef max_lengths);

// [total_L, trailing...] for dense [B, S1..SK, trailing...]; raises on any fault of the arguments.
std::vector<c10::SymInt> jagged_shape(const char* op, const at::Tensor& dense, at::TensorList offsets,
                                      const c10::SymInt& total_length);

// The part of jagged_shape that is needed before total_L can be read from the offsets.
void check_dense(const char* op, const at::Tensor& dense, at::TensorList offsets);

// offsets on the CPU. rows: the number of values rows that offsets may address, none to skip that check.
void check_offset_values(const char* op, const std::vector<at::Tensor>& offsets, std::optional<int64_t> rows);

// The bytes of padding_value after C conversion to dtype, in the low bytes of the result.
int64_t padding_bits(const char* op, at::ScalarType dtype, double padding_value);

}  // namespace gr_ops
