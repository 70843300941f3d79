#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "common/derivatives.h"
#include "sampled_softmax/arguments.h"

// A loss is one number: its gradients are made beside it, where all products are at hand, and the backward pass scales
// them.
namespace gr_ops::sampled_softmax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Query and rows are arguments so that a second derivative by them raises.
struct Scaled : torch::autograd::Function<Scaled> {
  static variable_list forward(AutogradContext* /*ctx*/, const Variable& grad, const Variable& /*query*/,
                               const Variable& /*rows*/, const Variable& dquery, const Variable& drows) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return {dquery.mul(grad.to(dquery.scalar_type())), drows.mul(grad.to(drows.scalar_type()))};
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*grads*/) {
    fail_second_derivative("sampled_softmax");
  }
};

struct Loss : torch::autograd::Function<Loss> {
  static Variable forward(AutogradContext* ctx, const Variable& query, const Variable& rows, const Variable& targets,
                          const Variable& negatives, const OptionalTensor& correction, const OptionalTensor& place,
                          int64_t group, double temperature, double eps) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [loss, dquery, drows] =
        call_gradients(query, rows, targets, negatives, correction, place, group, temperature, eps);
    ctx->save_for_backward({query, rows, dquery, drows});
    return loss;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    variable_list found = Scaled::apply(grads[0], saved[0], saved[1], saved[2], saved[3]);
    found.resize(9);
    return found;
  }
};

struct LossGradients : torch::autograd::Function<LossGradients> {
  static variable_list forward(AutogradContext* /*ctx*/, const Variable& query, const Variable& rows,
                               const Variable& targets, const Variable& negatives, const OptionalTensor& correction,
                               const OptionalTensor& place, int64_t group, double temperature, double eps) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [loss, dquery, drows] =
        call_gradients(query, rows, targets, negatives, correction, place, group, temperature, eps);
    return {loss, dquery, drows};
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*grads*/) {
    fail_second_derivative("sampled_softmax_gradients");
  }
};

bool learns(const at::Tensor& query, const at::Tensor& rows) { return differentiable(query) || differentiable(rows); }

at::Tensor loss(const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets, const at::Tensor& negatives,
                const OptionalTensor& correction, const OptionalTensor& place, int64_t group, double temperature,
                double eps) {
  if (learns(query, rows)) {
    return Loss::apply(query, rows, targets, negatives, correction, place, group, temperature, eps);
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_loss(query, rows, targets, negatives, correction, place, group, temperature, eps);
}

Gradients gradients(const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets,
                    const at::Tensor& negatives, const OptionalTensor& correction, const OptionalTensor& place,
                    int64_t group, double temperature, double eps) {
  if (learns(query, rows)) {
    const variable_list found =
        LossGradients::apply(query, rows, targets, negatives, correction, place, group, temperature, eps);
    return {found[0], found[1], found[2]};
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_gradients(query, rows, targets, negatives, correction, place, group, temperature, eps);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Autograd, m) {
  m.impl("sampled_softmax", &loss);
  m.impl("sampled_softmax_gradients", &gradients);
}

}  // namespace gr_ops::sampled_softmax
