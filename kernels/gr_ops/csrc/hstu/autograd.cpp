#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "common/derivatives.h"
#include "hstu/calls.h"
#include "hstu/entries.h"

// One formula for every operator: the forward one runs below autograd, its gradient is mxrec::hstu_gradients, which
// recomputes the scores. Saved are the inputs alone.
namespace gr_ops::hstu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

OptionalTensor optional(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
}

std::vector<at::Tensor*> saved_tensors(Arguments& a) {
  return {&a.q, &a.k, &a.v, &a.bias, &a.mask, &a.offsets, &a.offsets_k, &a.num_context, &a.num_target};
}

// The arguments that are no tensors; autograd saves the tensors itself and counts their versions.
struct PlainArguments : torch::CustomClassHolder {
  explicit PlainArguments(Arguments arguments) : value(std::move(arguments)) {
    for (at::Tensor* tensor : saved_tensors(value)) *tensor = at::Tensor();
  }
  Arguments value;
};

struct Attention : torch::autograd::Function<Attention> {
  static Variable forward(AutogradContext* ctx, const Variable& /*q*/, const Variable& /*k*/, const Variable& /*v*/,
                          const OptionalTensor& /*bias*/, const Arguments& arguments) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    Variable output = call_forward(arguments);
    Arguments copy = arguments;
    variable_list tensors;
    for (const at::Tensor* tensor : saved_tensors(copy)) tensors.push_back(*tensor);
    ctx->save_for_backward(tensors);
    ctx->saved_data["plain"] = c10::IValue::make_capsule(c10::make_intrusive<PlainArguments>(std::move(copy)));
    return output;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto plain = c10::static_intrusive_pointer_cast<PlainArguments>(ctx->saved_data["plain"].toCapsule());
    Arguments a = plain->value;
    TORCH_CHECK(!a.paged, a.op, ": has no gradient; expected q, k, v that do not require grad, got one that does");
    const variable_list saved = ctx->get_saved_variables();
    size_t next = 0;
    for (at::Tensor* tensor : saved_tensors(a)) *tensor = saved[next++];
    a.op = "hstu_gradients";
    a.grad = grads[0];
    a.needs_bias_grad = a.bias.defined() && ctx->needs_input_grad(3);
    auto [q, k, v, bias] = call_backward(a);
    return {q, k, v, a.needs_bias_grad ? bias : Variable(), Variable()};
  }
};

// The gradients have no derivative of their own.
struct AttentionGradients : torch::autograd::Function<AttentionGradients> {
  static variable_list forward(AutogradContext* ctx, const Variable& /*grad*/, const Variable& /*q*/,
                               const Variable& /*k*/, const Variable& /*v*/, const OptionalTensor& /*bias*/,
                               const Arguments& arguments) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->saved_data["op"] = std::string(arguments.op);
    auto [q, k, v, bias] = call_backward(arguments);
    return {q, k, v, bias};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& /*grads*/) {
    fail_second_derivative(ctx->saved_data["op"].toStringRef().c_str());
  }
};

bool any_differentiable(const Arguments& a) {
  return differentiable(a.q) || differentiable(a.k) || differentiable(a.v) || differentiable(a.bias);
}

at::Tensor forward(const Arguments& a) {
  if (any_differentiable(a)) return Attention::apply(a.q, a.k, a.v, optional(a.bias), a);
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_forward(a);
}

Gradients backward(const Arguments& a) {
  if (!any_differentiable(a) && !differentiable(a.grad)) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return call_backward(a);
  }
  const variable_list grads = AttentionGradients::apply(a.grad, a.q, a.k, a.v, optional(a.bias), a);
  return {grads[0], grads[1], grads[2], grads[3]};
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Autograd, m) { Entries<&forward, &backward>::register_in(m); }

}  // namespace gr_ops::hstu
