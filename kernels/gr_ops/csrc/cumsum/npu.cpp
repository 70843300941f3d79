#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "aclnn/operator.h"
#include "common/settings.h"
#include "cumsum/checks.h"

namespace gr_ops::npu {
namespace {

// [n] -> [n + 1], [r, n] -> [r, n + 1]: 0 and the running sums of each row, in the dtype of lengths.
at::Tensor complete_cumsum(const char* op, const at::Tensor& lengths) {
  check_cumsum_input(op, lengths);
  if (value_checks_enabled() && c10::isIntegralType(lengths.scalar_type(), false)) {
    check_cumsum_overflow(op, lengths.cpu());
  }
  const c10::DeviceGuard guard(lengths.device());
  std::vector<int64_t> shape = lengths.sizes().vec();
  shape.back() += 1;
  if (lengths.numel() == 0) return at::zeros(shape, lengths.options());

  at::Tensor offsets = at::empty(shape, lengths.options());
  const at::Tensor source = lengths.contiguous();
  static const aclnn::Operator<const aclTensor*, const aclTensor*> run("aclnnAsynchronousCompleteCumsum");
  auto arguments = std::make_shared<aclnn::Arguments>();
  run(arguments, arguments->tensor(source), arguments->tensor(offsets));
  return offsets;
}

at::Tensor asynchronous_complete_cumsum(const at::Tensor& lengths) {
  return complete_cumsum("asynchronous_complete_cumsum", lengths);
}

// As fbgemm: the scan runs over the flattened tensor, across its rows.
at::Tensor flat_cumsum(const char* op, const at::Tensor& lengths, int64_t first) {
  check_cumsum_input(op, lengths);
  const at::Tensor complete = complete_cumsum(op, lengths.reshape({-1}));
  return complete.slice(0, first, first + lengths.numel()).clone().view(lengths.sizes());
}

at::Tensor asynchronous_inclusive_cumsum(const at::Tensor& lengths) {
  return flat_cumsum("asynchronous_inclusive_cumsum", lengths, 1);
}

at::Tensor asynchronous_exclusive_cumsum(const at::Tensor& lengths) {
  return flat_cumsum("asynchronous_exclusive_cumsum", lengths, 0);
}

void register_npu(torch::Library& m) {
  m.impl("asynchronous_complete_cumsum", &asynchronous_complete_cumsum);
  m.impl("asynchronous_inclusive_cumsum", &asynchronous_inclusive_cumsum);
  m.impl("asynchronous_exclusive_cumsum", &asynchronous_exclusive_cumsum);
}

}  // namespace

TORCH_LIBRARY_IMPL(fbgemm, PrivateUse1, m) { register_npu(m); }
TORCH_LIBRARY_IMPL(mxrec, PrivateUse1, m) { register_npu(m); }

}  // namespace gr_ops::npu
