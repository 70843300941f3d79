#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "common/derivatives.h"
#include "relative_bias/calls.h"

// Linear in position and time: the gradient is their sums over equal distances and equal buckets. A second derivative
// by grad would be the bias again; nothing needs it, and it raises.
namespace gr_ops::relative_bias {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

OptionalTensor optional(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
}

struct Bias : torch::autograd::Function<Bias> {
  static Variable forward(AutogradContext* ctx, const Variable& position, const Variable& time, const Variable& buckets,
                          const Variable& offsets, const OptionalTensor& history, int64_t contexts) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({position, time, buckets, offsets, history.value_or(at::Tensor())});
    ctx->saved_data["contexts"] = contexts;
    return call_bias(position, time, buckets, offsets, history, contexts);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    auto [position, time] = call_bias_backward(grads[0], saved[0], saved[1], saved[2], saved[3], optional(saved[4]),
                                               ctx->saved_data["contexts"].toInt());
    return {position, time, Variable(), Variable(), Variable(), Variable()};
  }
};

struct BiasBackward : torch::autograd::Function<BiasBackward> {
  static variable_list forward(AutogradContext* /*ctx*/, const Variable& grad, const Variable& position,
                               const Variable& time, const Variable& buckets, const Variable& offsets,
                               const OptionalTensor& history, int64_t contexts) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [dposition, dtime] = call_bias_backward(grad, position, time, buckets, offsets, history, contexts);
    return {dposition, dtime};
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*grads*/) {
    fail_second_derivative("hstu_relative_bias_backward");
  }
};

at::Tensor bias(const at::Tensor& position, const at::Tensor& time, const at::Tensor& buckets,
                const at::Tensor& offsets, const OptionalTensor& history, int64_t contexts) {
  if (differentiable(position) || differentiable(time)) {
    return Bias::apply(position, time, buckets, offsets, history, contexts);
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_bias(position, time, buckets, offsets, history, contexts);
}

Gradients bias_backward(const at::Tensor& grad, const at::Tensor& position, const at::Tensor& time,
                        const at::Tensor& buckets, const at::Tensor& offsets, const OptionalTensor& history,
                        int64_t contexts) {
  if (differentiable(grad) || differentiable(position) || differentiable(time)) {
    const variable_list results = BiasBackward::apply(grad, position, time, buckets, offsets, history, contexts);
    return {results[0], results[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_bias_backward(grad, position, time, buckets, offsets, history, contexts);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Autograd, m) {
  m.impl("hstu_relative_bias", &bias);
  m.impl("hstu_relative_bias_backward", &bias_backward);
}

}  // namespace gr_ops::relative_bias
