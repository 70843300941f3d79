#pragma once

#include <ATen/core/Tensor.h>

// Validation of the rank-1 gather and its gradient (spec/operators.md 7), shared by every back end and the Meta kernels.
namespace gr_ops {

void check_gather(const char* op, const at::Tensor& x, const at::Tensor& index);

void check_gather_grad(const char* op, const at::Tensor& grad, const at::Tensor& x, const at::Tensor& index);

// index on the CPU, contiguous: raises where it leaves [0, length).
void check_gather_index(const char* op, const at::Tensor& index, int64_t length);

}  // namespace gr_ops
