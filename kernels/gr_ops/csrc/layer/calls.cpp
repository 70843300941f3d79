#include "layer/calls.h"

#include "common/operators.h"

namespace gr_ops::layer {

std::vector<at::Tensor> call_projection(const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef split,
                                        double eps) {
  static const auto op = find_operator<decltype(call_projection)>("mxrec::hstu_projection");
  return op.call(x, weight, split, eps);
}

ProjectionGradients call_projection_backward(at::TensorList grads, const at::Tensor& x, const at::Tensor& weight,
                                             at::IntArrayRef split, double eps) {
  static const auto op = find_operator<decltype(call_projection_backward)>("mxrec::hstu_projection_backward");
  return op.call(grads, x, weight, split, eps);
}

at::Tensor call_gate(const at::Tensor& attended, const at::Tensor& u, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias, const OptionalTensor& keep, double scale, double eps) {
  static const auto op = find_operator<decltype(call_gate)>("mxrec::hstu_gated_output");
  return op.call(attended, u, x, weight, bias, keep, scale, eps);
}

GateGradients call_gate_backward(const at::Tensor& grad, const at::Tensor& attended, const at::Tensor& u,
                                 const at::Tensor& weight, const OptionalTensor& keep, double scale, double eps) {
  static const auto op = find_operator<decltype(call_gate_backward)>("mxrec::hstu_gated_output_backward");
  return op.call(grad, attended, u, weight, keep, scale, eps);
}

}  // namespace gr_ops::layer
