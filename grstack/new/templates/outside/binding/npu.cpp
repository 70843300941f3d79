// The kernel for NPU tensors: a call of the operator through its aclnn interface.
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "aclnn/operator.h"
#include "operator.h"

namespace new_operator {
namespace {

namespace aclnn = gr_ops::aclnn;

at::Tensor npu(const at::Tensor& x, double factor) {
  check(x);
  const c10::DeviceGuard guard(x.device());
  at::Tensor y = at::empty(x.sizes(), x.options());
  if (x.numel() == 0) return y;

  // The parameters of aclnnNewOperatorGetWorkspaceSize: inputs, attributes (a Float arrives as a double), outputs.
  static const aclnn::Operator<const aclTensor*, double, const aclTensor*> run("aclnnNewOperator");
  const at::Tensor source = x.contiguous();
  auto arguments = std::make_shared<aclnn::Arguments>();
  run(arguments, arguments->tensor(source), factor, arguments->tensor(y));
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(custom, PrivateUse1, m) { m.impl(kOp, &npu); }

}  // namespace new_operator
