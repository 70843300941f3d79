#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace gr_ops::npu {

// values [L, trailing...] -> [B, S1..SK, trailing...]; rows beyond the data hold padding_value.
at::Tensor pad(const char* op, const at::Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths,
               double padding_value);

// dense [B, S1..SK, trailing...] -> [total_length, trailing...]; rows that dense does not hold are zero.
at::Tensor unpad(const char* op, const at::Tensor& dense, at::TensorList offsets, int64_t total_length);

// offsets[-1][-1], read back from the device.
int64_t read_total_length(const char* op, const at::Tensor& dense, at::TensorList offsets);

// MXREC_CHECK=1: raises if the contents of offsets are inconsistent. rows: as in check_offset_values.
void check_values_if_enabled(const char* op, at::TensorList offsets, std::optional<int64_t> rows);

}  // namespace gr_ops::npu
