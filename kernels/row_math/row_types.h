#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "row_math/row_kernels.h"

// Tensors whose rows the kernels work on.
namespace row_math {

// Calls body(const Row*) for the type in which a tensor holds its rows.
template <typename Body>
void with_row_type(at::ScalarType dtype, Body body) {
  if (dtype == at::kFloat) {
    body(static_cast<const float*>(nullptr));
  } else if (dtype == at::kHalf) {
    body(static_cast<const Half*>(nullptr));
  } else if (dtype == at::kBFloat16) {
    body(static_cast<const Bfloat16*>(nullptr));
  } else {
    TORCH_CHECK(false, "rows must be float32, float16 or bfloat16, got ", dtype);
  }
}

template <typename Row>
Row* row_data(const at::Tensor& tensor) {
  return static_cast<Row*>(tensor.mutable_data_ptr());
}

}  // namespace row_math
