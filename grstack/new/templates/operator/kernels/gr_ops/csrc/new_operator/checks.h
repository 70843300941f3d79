#pragma once

#include <ATen/core/Tensor.h>

// Validation of new_operator, shared by every back end and the Meta kernel.
namespace gr_ops::new_operator {

constexpr const char* kOp = "new_operator";

using Signature = at::Tensor(const at::Tensor& x, double factor);

void check(const at::Tensor& x);

}  // namespace gr_ops::new_operator
