#pragma once

#include <ATen/core/Tensor.h>

// Validation of the prefix sums (docs/operators.md), shared by every back end and the Meta kernels.
namespace gr_ops {

void check_cumsum_input(const char* op, const at::Tensor& lengths);

// lengths on the CPU, of an integer type: raises where the running sum leaves the range of the type.
void check_cumsum_overflow(const char* op, const at::Tensor& lengths);

}  // namespace gr_ops
