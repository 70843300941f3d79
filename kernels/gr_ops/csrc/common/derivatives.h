#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

namespace gr_ops {

// Whether anybody may ask for a derivative by one of the tensors. Where nobody may, the kernel is called right away: to
// record a call takes longer than a small operator.
inline bool differentiable(const at::Tensor& tensor) {
  return tensor.defined() &&
         ((c10::GradMode::is_enabled() && tensor.requires_grad()) || tensor._fw_grad(/*level=*/0).defined());
}

}  // namespace gr_ops
