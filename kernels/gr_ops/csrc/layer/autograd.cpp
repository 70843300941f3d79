#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "common/derivatives.h"
#include "layer/calls.h"

// First derivatives; those of the gradients raise. Saved are the inputs.
namespace gr_ops::layer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct Projection : torch::autograd::Function<Projection> {
  static variable_list forward(AutogradContext* ctx, const Variable& x, const Variable& weight,
                               const std::vector<int64_t>& split, double eps) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x, weight});
    ctx->saved_data["split"] = split;
    ctx->saved_data["eps"] = eps;
    return call_projection(x, weight, split, eps);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> split = ctx->saved_data["split"].toIntVector();
    auto [x, weight] = call_projection_backward(grads, saved[0], saved[1], split, ctx->saved_data["eps"].toDouble());
    return {x, weight, Variable(), Variable()};
  }
};

struct ProjectionBackward : torch::autograd::Function<ProjectionBackward> {
  static variable_list forward(AutogradContext* /*ctx*/, const at::TensorList& grads, const Variable& x,
                               const Variable& weight, const std::vector<int64_t>& split, double eps) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [dx, dweight] = call_projection_backward(grads, x, weight, split, eps);
    return {dx, dweight};
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*grads*/) {
    fail_second_derivative("hstu_projection_backward");
  }
};

struct Gate : torch::autograd::Function<Gate> {
  static Variable forward(AutogradContext* ctx, const Variable& attended, const Variable& u, const Variable& x,
                          const Variable& weight, const Variable& bias, const OptionalTensor& keep, double scale,
                          double eps) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({attended, u, weight, keep.value_or(at::Tensor())});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["eps"] = eps;
    return call_gate(attended, u, x, weight, bias, keep, scale, eps);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const OptionalTensor keep = saved[3].defined() ? OptionalTensor(saved[3]) : OptionalTensor();
    auto [attended, u, weight, bias] =
        call_gate_backward(grads[0], saved[0], saved[1], saved[2], keep, ctx->saved_data["scale"].toDouble(),
                           ctx->saved_data["eps"].toDouble());
    return {attended, u, grads[0], weight, bias, Variable(), Variable(), Variable()};
  }
};

struct GateBackward : torch::autograd::Function<GateBackward> {
  static variable_list forward(AutogradContext* /*ctx*/, const Variable& grad, const Variable& attended,
                               const Variable& u, const Variable& weight, const OptionalTensor& keep, double scale,
                               double eps) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [dattended, du, dweight, dbias] = call_gate_backward(grad, attended, u, weight, keep, scale, eps);
    return {dattended, du, dweight, dbias};
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*grads*/) {
    fail_second_derivative("hstu_gated_output_backward");
  }
};

template <typename... Tensors>
bool any_differentiable(const Tensors&... tensors) {
  return (differentiable(tensors) || ...);
}

std::vector<at::Tensor> projection(const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef split, double eps) {
  if (any_differentiable(x, weight)) return Projection::apply(x, weight, split.vec(), eps);
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_projection(x, weight, split, eps);
}

ProjectionGradients projection_backward(at::TensorList grads, const at::Tensor& x, const at::Tensor& weight,
                                        at::IntArrayRef split, double eps) {
  bool differentiated = any_differentiable(x, weight);
  for (const at::Tensor& grad : grads) differentiated = differentiated || differentiable(grad);
  if (differentiated) {
    const variable_list results = ProjectionBackward::apply(grads, x, weight, split.vec(), eps);
    return {results[0], results[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_projection_backward(grads, x, weight, split, eps);
}

at::Tensor gate(const at::Tensor& attended, const at::Tensor& u, const at::Tensor& x, const at::Tensor& weight,
                const at::Tensor& bias, const OptionalTensor& keep, double scale, double eps) {
  if (any_differentiable(attended, u, x, weight, bias)) {
    return Gate::apply(attended, u, x, weight, bias, keep, scale, eps);
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_gate(attended, u, x, weight, bias, keep, scale, eps);
}

GateGradients gate_backward(const at::Tensor& grad, const at::Tensor& attended, const at::Tensor& u,
                            const at::Tensor& weight, const OptionalTensor& keep, double scale, double eps) {
  if (any_differentiable(grad, attended, u, weight)) {
    const variable_list results = GateBackward::apply(grad, attended, u, weight, keep, scale, eps);
    return {results[0], results[1], results[2], results[3]};
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_gate_backward(grad, attended, u, weight, keep, scale, eps);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Autograd, m) {
  m.impl("hstu_projection", &projection);
  m.impl("hstu_projection_backward", &projection_backward);
  m.impl("hstu_gated_output", &gate);
  m.impl("hstu_gated_output_backward", &gate_backward);
}

}  // namespace gr_ops::layer
