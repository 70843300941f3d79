#pragma once

#include <ATen/core/Tensor.h>

// What bounds_check_indices found on the device in FATAL mode. A kernel cannot raise, and waiting for it would stall
// the stream, so the report is copied to the host behind the kernel and raised once it has arrived: by the next call of
// the operator, by raise_bounds_violations, or, with MXREC_CHECK=1, before the call itself returns.
namespace gr_ops::npu {

// The report output of aclnnBoundsCheckIndices, 8 int64.
void expect_report(const at::Tensor& report);

// Raises the first violation among the reports that have arrived; wait: among all that are on their way.
void raise_arrived_reports(bool wait);

}  // namespace gr_ops::npu
