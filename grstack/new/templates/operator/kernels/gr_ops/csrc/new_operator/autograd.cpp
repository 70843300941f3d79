#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "common/derivatives.h"
#include "common/operators.h"
#include "new_operator/checks.h"

// The operator is linear in x: its gradient is the operator itself, so derivatives of every order exist.
namespace gr_ops::new_operator {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

at::Tensor call(const at::Tensor& x, double factor) {
  static const auto op = find_operator<Signature>("mxrec::new_operator");
  return op.call(x, factor);
}

struct Differentiable : torch::autograd::Function<Differentiable> {
  static Variable forward(AutogradContext* ctx, const Variable& x, double factor) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->saved_data["factor"] = factor;
    return call(x, factor);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {call(grads[0], ctx->saved_data["factor"].toDouble()), Variable()};
  }
};

at::Tensor autograd(const at::Tensor& x, double factor) {
  if (differentiable(x)) return Differentiable::apply(x, factor);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call(x, factor);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Autograd, m) { m.impl(kOp, &autograd); }

}  // namespace gr_ops::new_operator
