// torch.ops.custom.new_operator: its schema, what it refuses, the CPU and Meta kernels, and its gradient.
#include "operator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace new_operator {

void check(const at::Tensor& x) {
  const at::ScalarType dtype = x.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf, kOp,
              ": x has an unsupported dtype; expected float32 or float16, got ", dtype);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

at::Tensor cpu(const at::Tensor& x, double factor) {
  check(x);
  return at::mul(x.to(at::kFloat), static_cast<float>(factor)).to(x.scalar_type());
}

at::Tensor meta(const at::Tensor& x, double /*factor*/) {
  check(x);
  return x.new_empty_symint(x.sym_sizes());
}

at::Tensor call(const at::Tensor& x, double factor) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("custom::new_operator", "").typed<Signature>();
  return op.call(x, factor);
}

// The operator is linear in x: its gradient is the operator itself.
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

at::Tensor autograd(const at::Tensor& x, double factor) { return Differentiable::apply(x, factor); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(custom, m) {
  m.def("new_operator(Tensor x, float factor) -> Tensor", {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(custom, CPU, m) { m.impl(kOp, &cpu); }
TORCH_LIBRARY_IMPL(custom, Meta, m) { m.impl(kOp, &meta); }
TORCH_LIBRARY_IMPL(custom, Autograd, m) { m.impl(kOp, &autograd); }

}  // namespace new_operator
