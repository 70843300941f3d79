#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>

#include "aclnn/operator.h"
#include "bounds/checks.h"
#include "bounds/npu_reports.h"
#include "common/operators.h"
#include "common/settings.h"
#include "faults/npu_faults.h"

namespace gr_ops::npu {
namespace {

int64_t operator_mode(BoundsMode mode) {
  switch (mode) {
    case BoundsMode::fatal:
      return 0;
    case BoundsMode::warning:
      return 1;
    default:
      return 2;
  }
}

// indices, offsets and warning are given as outputs too: the operator writes what it repairs.
at::Tensor run_bounds_check(const at::Tensor& rows, const at::Tensor& indices, const at::Tensor& offsets,
                            const at::Tensor& warning, const at::Tensor& batch_offsets, int64_t mode) {
  static const aclnn::Operator<const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*,
                               const aclTensor*, int64_t, const aclTensor*, const aclTensor*, const aclTensor*,
                               const aclTensor*, const aclTensor*>
      run("aclnnBoundsCheckIndices");
  at::Tensor report = at::empty({8}, rows.options());
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  const aclTensor* records = convert.tensor(batch_offsets.defined() ? fault_records() : at::Tensor());
  run(arguments, convert.tensor(rows), convert.tensor(indices), convert.tensor(offsets), convert.tensor(warning),
      convert.tensor(batch_offsets), records, mode, convert.tensor(indices), convert.tensor(offsets),
      convert.tensor(warning), convert.tensor(report), records);
  return report;
}

void bounds_check_indices(const at::Tensor& rows_per_table, const at::Tensor& indices, const at::Tensor& offsets,
                          int64_t bounds_check_mode, const at::Tensor& warning,
                          const std::optional<at::Tensor>& weights, const std::optional<at::Tensor>& batch_offsets,
                          int64_t max_batch, const std::optional<at::Tensor>& /*b_t_map*/, int64_t /*info_bits*/,
                          int64_t /*info_mask*/, int64_t version) {
  const BoundsMode mode = bounds_mode(bounds_check_mode, version);
  if (mode == BoundsMode::none) return;
  raise_arrived_reports(/*wait=*/false);
  check_bounds_arguments({rows_per_table, indices, offsets, warning, weights, batch_offsets, max_batch});
  if (value_checks_enabled() && batch_offsets) first_bags(rows_per_table, offsets, batch_offsets->cpu());
  const c10::DeviceGuard guard(indices.device());
  at::Tensor first;
  if (batch_offsets) first = batch_offsets->to(at::kLong).contiguous();
  const at::Tensor report = run_bounds_check(rows_per_table.to(at::kLong).contiguous(), indices, offsets, warning,
                                             first, operator_mode(mode));
  if (mode != BoundsMode::fatal) return;
  expect_report(report);
  if (value_checks_enabled()) raise_arrived_reports(/*wait=*/true);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, PrivateUse1, m) { m.impl(kBoundsOp, &bounds_check_indices); }
TORCH_LIBRARY_IMPL(fbgemm, PrivateUse1, m) { m.impl(kBoundsOp, forward_to_mxrec()); }

// Waits for the device and raises what FATAL checks have found so far.
TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  m.def("raise_bounds_violations() -> ()", [] { raise_arrived_reports(/*wait=*/true); });
}

}  // namespace gr_ops::npu
