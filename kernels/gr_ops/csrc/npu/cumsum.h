#pragma once

#include <ATen/core/Tensor.h>

namespace gr_ops::npu {

// [n] -> [n + 1], [r, n] -> [r, n + 1]: 0 and the running sums of each row, in the dtype of lengths.
at::Tensor complete_cumsum(const char* op, const at::Tensor& lengths);

}  // namespace gr_ops::npu
