#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <vector>

#include "common/derivatives.h"
#include "common/operators.h"

// Both operators are linear, in x and in grad, and each is the gradient of the other: derivatives of every order exist.
namespace gr_ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

using GatherSignature = at::Tensor(const at::Tensor&, const at::Tensor&);
using GradSignature = std::vector<at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&);

at::Tensor call_gather(const at::Tensor& x, const at::Tensor& index) {
  static const auto op = find_operator<GatherSignature>("mxrec::gather_for_rank1");
  return op.call(x, index);
}

std::vector<at::Tensor> call_grad(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& index) {
  static const auto op = find_operator<GradSignature>("mxrec::index_select_for_rank1_backward");
  return op.call(grad, x, index);
}

struct Gather : torch::autograd::Function<Gather> {
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& index) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x, index});
    return call_gather(x, index);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    return {call_grad(grads[0], saved[0], saved[1])[0], Variable()};
  }
};

// x gives its length and dtype only.
struct GatherGrad : torch::autograd::Function<GatherGrad> {
  static variable_list forward(AutogradContext* ctx, const Variable& grad, const Variable& x, const Variable& index) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({index});
    variable_list results = call_grad(grad, x, index);
    ctx->mark_non_differentiable({results[1]});
    return results;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {call_gather(grads[0], ctx->get_saved_variables()[0]), Variable(), Variable()};
  }
};

at::Tensor gather(const at::Tensor& x, const at::Tensor& index) {
  if (differentiable(x)) return Gather::apply(x, index);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_gather(x, index);
}

std::vector<at::Tensor> gather_grad(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& index) {
  if (differentiable(grad)) return GatherGrad::apply(grad, x, index);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_grad(grad, x, index);
}

void register_autograd(torch::Library& m) {
  m.impl("gather_for_rank1", &gather);
  m.impl("index_select_for_rank1_backward", &gather_grad);
}

}  // namespace

TORCH_LIBRARY_IMPL(fbgemm, Autograd, m) { register_autograd(m); }
TORCH_LIBRARY_IMPL(mxrec, Autograd, m) { register_autograd(m); }

}  // namespace gr_ops
