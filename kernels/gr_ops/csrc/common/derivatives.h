#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

namespace gr_ops {

// Whether anybody may ask for a derivative by one of the tensors. Where nobody may, the kernel is called right away: to
// record a call takes longer than a small operator.
inline bool differentiable(const at::Tensor& tensor) {
  return tensor.defined() &&
         ((c10::GradMode::is_enabled() && tensor.requires_grad()) || tensor._fw_grad(/*level=*/0).defined());
}

// Gradients have no derivative of their own.
[[noreturn]] inline void fail_second_derivative(const char* op) {
  TORCH_CHECK(false, op, ": double backward is not supported; expected first derivatives only");
}

}  // namespace gr_ops
