#pragma once

#include <ATen/core/Tensor.h>

namespace new_operator {

constexpr const char* kOp = "new_operator";

using Signature = at::Tensor(const at::Tensor& x, double factor);

// The rules of the arguments, the same for every device.
void check(const at::Tensor& x);

}  // namespace new_operator
