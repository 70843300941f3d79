#include "npu/cumsum.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include "common/checks.h"
#include "npu/aclnn/operator.h"

namespace gr_ops::npu {

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

}  // namespace gr_ops::npu
