#include <torch/library.h>

#include "layer/calls.h"

namespace gr_ops::layer {
namespace {

std::vector<at::Tensor> projection(const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef split,
                                   double /*eps*/) {
  check_projection("hstu_projection", x, weight, split);
  std::vector<at::Tensor> parts;
  for (int64_t width : split) parts.push_back(weight.new_empty_symint({x.sym_size(0), c10::SymInt(width)}));
  return parts;
}

at::Tensor like(const at::Tensor& tensor) { return tensor.new_empty_symint(tensor.sym_sizes()); }

ProjectionGradients projection_backward(at::TensorList grads, const at::Tensor& x, const at::Tensor& weight,
                                        at::IntArrayRef split, double /*eps*/) {
  check_projection("hstu_projection_backward", x, weight, split);
  check_projection_grads("hstu_projection_backward", grads, x, weight, split);
  return {like(x), like(weight)};
}

at::Tensor gate(const at::Tensor& attended, const at::Tensor& u, const at::Tensor& x, const at::Tensor& weight,
                const at::Tensor& bias, const OptionalTensor& keep, double /*scale*/, double /*eps*/) {
  check_gate("hstu_gated_output", attended, u, weight, keep);
  check_gate_rows("hstu_gated_output", "x", x, attended, weight);
  check_gate_bias("hstu_gated_output", bias, weight);
  return like(x);
}

GateGradients gate_backward(const at::Tensor& grad, const at::Tensor& attended, const at::Tensor& u,
                            const at::Tensor& weight, const OptionalTensor& keep, double /*scale*/, double /*eps*/) {
  check_gate("hstu_gated_output_backward", attended, u, weight, keep);
  check_gate_rows("hstu_gated_output_backward", "grad", grad, attended, weight);
  return {like(attended), like(u), like(weight), weight.new_empty_symint({weight.sym_size(0)})};
}

at::Tensor keep(const at::Tensor& tensor, double p, int64_t /*seed*/) {
  check_probability("hstu_keep", p);
  return tensor.new_empty_symint(tensor.sym_sizes(), tensor.options().dtype(at::kBool));
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) {
  m.impl("hstu_projection", &projection);
  m.impl("hstu_projection_backward", &projection_backward);
  m.impl("hstu_gated_output", &gate);
  m.impl("hstu_gated_output_backward", &gate_backward);
  m.impl("hstu_keep", &keep);
}

}  // namespace gr_ops::layer
