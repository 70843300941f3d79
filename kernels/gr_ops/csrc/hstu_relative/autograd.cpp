#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <initializer_list>

#include "common/derivatives.h"
#include "hstu_relative/arguments.h"

// The forward operator runs below autograd; its gradient is mxrec::hstu_relative_gradients, which makes scores and bias
// again. Saved are the inputs alone.
namespace gr_ops::hstu_relative {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

OptionalTensor optional(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
}

struct Attention : torch::autograd::Function<Attention> {
  static Variable forward(AutogradContext* ctx, const Variable& q, const Variable& k, const Variable& v,
                          const Variable& position, const Variable& time, const Variable& times, const Variable& cells,
                          const Variable& offsets, const OptionalTensor& num_context, const OptionalTensor& num_target,
                          int64_t group, int64_t max_len, double scale) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({q, k, v, position, time, times, cells, offsets, num_context.value_or(at::Tensor()),
                            num_target.value_or(at::Tensor())});
    ctx->saved_data["group"] = group;
    ctx->saved_data["max_len"] = max_len;
    ctx->saved_data["scale"] = scale;
    return call_forward(q, k, v, position, time, times, cells, offsets, num_context, num_target, group, max_len, scale);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list s = ctx->get_saved_variables();
    auto [q, k, v, position, time] = call_backward(
        grads[0], s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], optional(s[8]), optional(s[9]),
        ctx->saved_data["group"].toInt(), ctx->saved_data["max_len"].toInt(), ctx->saved_data["scale"].toDouble());
    variable_list found{q, k, v, position, time};
    found.resize(13);
    return found;
  }
};

struct AttentionGradients : torch::autograd::Function<AttentionGradients> {
  static variable_list forward(AutogradContext* /*ctx*/, const Variable& grad, const Variable& q, const Variable& k,
                               const Variable& v, const Variable& position, const Variable& time, const Variable& times,
                               const Variable& cells, const Variable& offsets, const OptionalTensor& num_context,
                               const OptionalTensor& num_target, int64_t group, int64_t max_len, double scale) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [dq, dk, dv, dposition, dtime] = call_backward(grad, q, k, v, position, time, times, cells, offsets,
                                                        num_context, num_target, group, max_len, scale);
    return {dq, dk, dv, dposition, dtime};
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*grads*/) {
    fail_second_derivative("hstu_relative_gradients");
  }
};

bool any_differentiable(std::initializer_list<at::Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return differentiable(tensor); });
}

at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& position,
                   const at::Tensor& time, const at::Tensor& times, const at::Tensor& cells, const at::Tensor& offsets,
                   const OptionalTensor& num_context, const OptionalTensor& num_target, int64_t group, int64_t max_len,
                   double scale) {
  if (any_differentiable({q, k, v, position, time})) {
    return Attention::apply(q, k, v, position, time, times, cells, offsets, num_context, num_target, group, max_len,
                            scale);
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_forward(q, k, v, position, time, times, cells, offsets, num_context, num_target, group, max_len, scale);
}

Gradients backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   const at::Tensor& position, const at::Tensor& time, const at::Tensor& times, const at::Tensor& cells,
                   const at::Tensor& offsets, const OptionalTensor& num_context, const OptionalTensor& num_target,
                   int64_t group, int64_t max_len, double scale) {
  if (any_differentiable({grad, q, k, v, position, time})) {
    const variable_list found = AttentionGradients::apply(grad, q, k, v, position, time, times, cells, offsets,
                                                          num_context, num_target, group, max_len, scale);
    return {found[0], found[1], found[2], found[3], found[4]};
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_backward(grad, q, k, v, position, time, times, cells, offsets, num_context, num_target, group, max_len,
                       scale);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Autograd, m) {
  m.impl("hstu_relative", &forward);
  m.impl("hstu_relative_gradients", &backward);
}

}  // namespace gr_ops::hstu_relative
