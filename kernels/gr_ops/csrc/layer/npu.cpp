#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "aclnn/operator.h"
#include "layer/calls.h"
#include "torch_npu/csrc/aten/NPUGeneratorImpl.h"

// On NPU tensors: one launch of HstuProjection or HstuGatedOutput forward; backward one of ours, the product that the
// gradient of the weight is, and the sum that the gradient of the bias is, which PyTorch's library is best at.
namespace gr_ops::layer {
namespace {

using TensorHandle = const aclTensor*;

// Of the operators (kernels/operators/common/layer_tiling.h, layer_host.h).
constexpr int64_t kMaxWidth = 2048, kMaxColumns = 16384;
constexpr size_t kMaxParts = 16;

void check_type(const char* op, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() != at::kDouble, op,
              ": float64 is not supported on the NPU; expected float32, float16 or bfloat16");
}

void check_width(const char* op, const char* what, int64_t width, int64_t most) {
  TORCH_CHECK(width <= most, op, ": ", what, " has ", width, " columns; expected at most ", most, " on the NPU");
}

void check_projection_on_npu(const char* op, const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef split) {
  check_projection(op, x, weight, split);
  check_type(op, x);
  check_width(op, "x", x.size(1), kMaxWidth);
  check_width(op, "weight", weight.size(1), kMaxColumns);
  TORCH_CHECK(split.size() <= kMaxParts, op, ": split has ", split.size(), " parts; expected at most ", kMaxParts,
              " on the NPU");
}

void check_gate_on_npu(const char* op, const at::Tensor& attended, const at::Tensor& u, const at::Tensor& weight,
                       const OptionalTensor& keep) {
  check_gate(op, attended, u, weight, keep);
  check_type(op, attended);
  check_width(op, "attended", attended.size(1), kMaxWidth);
  TORCH_CHECK(weight.size(0) <= kMaxWidth, op, ": weight has ", weight.size(0), " rows; expected at most ", kMaxWidth,
              " on the NPU");
}

std::vector<at::Tensor> projection(const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef split, double eps) {
  check_projection_on_npu("hstu_projection", x, weight, split);
  const c10::DeviceGuard guard(x.device());
  const int64_t tokens = x.size(0);
  std::vector<at::Tensor> parts;
  for (int64_t width : split) parts.push_back(at::empty({tokens, width}, weight.options()));
  if (tokens == 0) return parts;
  const at::Tensor rows = x.contiguous(), matrix = weight.contiguous();
  static const aclnn::Operator<TensorHandle, TensorHandle, const aclIntArray*, double, const aclTensorList*> op(
      "aclnnHstuProjection");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  op(arguments, convert.tensor(rows), convert.tensor(matrix), convert.int_array(split), eps,
     convert.tensor_list(parts));
  return parts;
}

ProjectionGradients projection_backward(at::TensorList grads, const at::Tensor& x, const at::Tensor& weight,
                                        at::IntArrayRef split, double eps) {
  check_projection_on_npu("hstu_projection_backward", x, weight, split);
  check_projection_grads("hstu_projection_backward", grads, x, weight, split);
  const c10::DeviceGuard guard(x.device());
  const at::Tensor dx = at::empty(x.sizes(), x.options());
  if (x.size(0) == 0) return {dx, at::zeros(weight.sizes(), weight.options())};
  const at::Tensor rows = x.contiguous(), matrix = weight.contiguous();
  const at::Tensor normed = at::empty(x.sizes(), weight.options());
  const at::Tensor of_products = at::empty({x.size(0), weight.size(1)}, weight.options());
  std::vector<at::Tensor> parts;
  for (const at::Tensor& grad : grads) parts.push_back(grad.contiguous());
  static const aclnn::Operator<const aclTensorList*, TensorHandle, TensorHandle, const aclIntArray*, double,
                               TensorHandle, TensorHandle, TensorHandle>
      op("aclnnHstuProjectionBackward");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  op(arguments, convert.tensor_list(parts), convert.tensor(rows), convert.tensor(matrix), convert.int_array(split), eps,
     convert.tensor(dx), convert.tensor(normed), convert.tensor(of_products));
  return {dx, at::mm(normed.t(), of_products)};
}

TensorHandle bytes(aclnn::Arguments& convert, const at::Tensor& keep) {
  return keep.defined() ? convert.tensor_as(keep, at::kByte) : nullptr;
}

at::Tensor contiguous(const OptionalTensor& tensor) { return tensor.has_value() ? tensor->contiguous() : at::Tensor(); }

at::Tensor gate(const at::Tensor& attended, const at::Tensor& u, const at::Tensor& x, const at::Tensor& weight,
                const at::Tensor& bias, const OptionalTensor& keep, double scale, double eps) {
  check_gate_on_npu("hstu_gated_output", attended, u, weight, keep);
  check_gate_rows("hstu_gated_output", "x", x, attended, weight);
  check_gate_bias("hstu_gated_output", bias, weight);
  const c10::DeviceGuard guard(x.device());
  const at::Tensor out = at::empty(x.sizes(), x.options());
  if (x.size(0) == 0) return out;
  const at::Tensor a = attended.contiguous(), gates = u.contiguous(), rows = x.contiguous(),
                   matrix = weight.contiguous(), shift = bias.contiguous(), mask = contiguous(keep);
  static const aclnn::Operator<TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle,
                               double, double, TensorHandle>
      op("aclnnHstuGatedOutput");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  op(arguments, convert.tensor(a), convert.tensor(gates), convert.tensor(rows), convert.tensor(matrix),
     convert.tensor(shift), bytes(convert, mask), scale, eps, convert.tensor(out));
  return out;
}

GateGradients gate_backward(const at::Tensor& grad, const at::Tensor& attended, const at::Tensor& u,
                            const at::Tensor& weight, const OptionalTensor& keep, double scale, double eps) {
  check_gate_on_npu("hstu_gated_output_backward", attended, u, weight, keep);
  check_gate_rows("hstu_gated_output_backward", "grad", grad, attended, weight);
  const c10::DeviceGuard guard(attended.device());
  const at::Tensor da = at::empty(attended.sizes(), attended.options()), du = at::empty(u.sizes(), u.options());
  if (attended.size(0) == 0) {
    return {da, du, at::zeros(weight.sizes(), weight.options()), at::zeros({weight.size(0)}, weight.options())};
  }
  // Rounded once where rows between layers are wider, as autocast does: the weight's gradient reads it too.
  const at::Tensor gradient = grad.to(attended.scalar_type()).contiguous();
  const at::Tensor a = attended.contiguous(), gates = u.contiguous(), matrix = weight.contiguous(),
                   mask = contiguous(keep);
  const at::Tensor gated = at::empty(attended.sizes(), attended.options());
  static const aclnn::Operator<TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, double, double,
                               TensorHandle, TensorHandle, TensorHandle>
      op("aclnnHstuGatedOutputBackward");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  op(arguments, convert.tensor(gradient), convert.tensor(a), convert.tensor(gates), convert.tensor(matrix),
     bytes(convert, mask), scale, eps, convert.tensor(da), convert.tensor(du), convert.tensor(gated));
  return {da, du, at::mm(gradient.t(), gated), at::sum(gradient, {0})};
}

// By PyTorch's generator: as many, and the same for a seed, but not those of the CPU. Integer products that wrap, which
// those need, are not a documented property of the vector unit.
at::Tensor keep(const at::Tensor& tensor, double p, int64_t seed) {
  check_probability("hstu_keep", p);
  const c10::DeviceGuard guard(tensor.device());
  at::Generator generator = at_npu::detail::createNPUGenerator(tensor.device().index());
  generator.set_current_seed(static_cast<uint64_t>(seed));
  return at::empty(tensor.sizes(), tensor.options().dtype(at::kBool)).bernoulli_(1 - p, generator);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, PrivateUse1, m) {
  m.impl("hstu_projection", &projection);
  m.impl("hstu_projection_backward", &projection_backward);
  m.impl("hstu_gated_output", &gate);
  m.impl("hstu_gated_output_backward", &gate_backward);
  m.impl("hstu_keep", &keep);
}

}  // namespace gr_ops::layer
