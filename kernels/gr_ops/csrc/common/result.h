#pragma once

#include <ATen/core/Tensor.h>

namespace gr_ops {

// An uninitialised result on the CPU. A large one comes in memory that an earlier one has left, or in huge pages: fresh
// memory costs more than its use, since the system clears and maps it page by page. What results leave is kept for the
// next ones of about the same size, up to MXREC_KEPT_RESULT_MB (128; 0: none) in a process.
at::Tensor new_result(at::IntArrayRef shape, const at::TensorOptions& options);
at::Tensor new_result_like(const at::Tensor& tensor);  // contiguous

}  // namespace gr_ops
