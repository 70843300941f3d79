#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "common/derivatives.h"
#include "common/operators.h"
#include "common/override.h"

// A permutation is linear in values and in weights. Its gradient is permute_sparse_data_backward, and that operator's
// gradient is the permutation again: derivatives of every order exist.
namespace gr_ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

using Permuted = std::tuple<at::Tensor, at::Tensor, std::optional<at::Tensor>>;
using PermuteSignature = Permuted(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                  const std::optional<at::Tensor>&, std::optional<c10::SymInt>);
using BackwardSignature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, c10::SymInt);
using PermuteCall = Permuted (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                 const std::optional<at::Tensor>&, std::optional<c10::SymInt>);

Permuted call_2d(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                 const std::optional<at::Tensor>& weights, std::optional<c10::SymInt> sum) {
  static const auto op = find_operator<PermuteSignature>("mxrec::permute_2D_sparse_data");
  return op.call(permute, lengths, values, weights, std::move(sum));
}

Permuted call_1d(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                 const std::optional<at::Tensor>& weights, std::optional<c10::SymInt> sum) {
  static const auto op = find_operator<PermuteSignature>("mxrec::permute_1D_sparse_data");
  return op.call(permute, lengths, values, weights, std::move(sum));
}

at::Tensor call_backward(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& grad,
                         c10::SymInt total) {
  static const auto op = find_operator<BackwardSignature>("mxrec::permute_sparse_data_backward");
  return op.call(permute, lengths, grad, std::move(total));
}

struct Permute : torch::autograd::Function<Permute> {
  static variable_list forward(AutogradContext* ctx, const Variable& permute, const Variable& lengths,
                               const Variable& values, const std::optional<at::Tensor>& weights,
                               std::optional<c10::SymInt> sum, PermuteCall call) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [out_lengths, out_values, out_weights] = call(permute, lengths, values, weights, std::move(sum));
    ctx->save_for_backward({permute, lengths});
    ctx->saved_data["rows"] = values.sym_size(0);
    variable_list results{std::move(out_lengths), std::move(out_values)};
    if (out_weights) results.push_back(*std::move(out_weights));
    ctx->mark_non_differentiable({results[0]});
    ctx->set_materialize_grads(false);
    return results;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const c10::SymInt rows = ctx->saved_data["rows"].toSymInt();
    const auto gradient = [&](size_t output) {
      if (output >= grads.size() || !grads[output].defined()) return Variable();
      return call_backward(saved[0], saved[1], grads[output], rows);
    };
    variable_list result(6);
    result[2] = gradient(1);
    result[3] = gradient(2);
    return result;
  }
};

Permuted apply(PermuteCall call, const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
               const std::optional<at::Tensor>& weights, std::optional<c10::SymInt> sum) {
  if (!differentiable(values) && !(weights && differentiable(*weights))) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return call(permute, lengths, values, weights, std::move(sum));
  }
  const variable_list results = Permute::apply(permute, lengths, values, weights, std::move(sum), call);
  std::optional<at::Tensor> out_weights;
  if (weights) out_weights = results[2];
  return {results[0], results[1], std::move(out_weights)};
}

Permuted permute_2d(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                    const std::optional<at::Tensor>& weights, std::optional<c10::SymInt> sum) {
  return apply(&call_2d, permute, lengths, values, weights, std::move(sum));
}

Permuted permute_1d(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                    const std::optional<at::Tensor>& weights, std::optional<c10::SymInt> sum) {
  return apply(&call_1d, permute, lengths, values, weights, std::move(sum));
}

struct Backward : torch::autograd::Function<Backward> {
  static Variable forward(AutogradContext* ctx, const Variable& permute, const Variable& lengths, const Variable& grad,
                          c10::SymInt total) {
    at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor result = call_backward(permute, lengths, grad, std::move(total));
    ctx->save_for_backward({permute, lengths});
    ctx->saved_data["rows"] = grad.sym_size(0);
    return result;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const c10::SymInt rows = ctx->saved_data["rows"].toSymInt();
    variable_list result(4);
    result[2] = std::get<1>(call_2d(saved[0], saved[1], grads[0], std::nullopt, rows));
    return result;
  }
};

at::Tensor backward(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& grad, c10::SymInt total) {
  if (differentiable(grad)) return Backward::apply(permute, lengths, grad, std::move(total));
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_backward(permute, lengths, grad, std::move(total));
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Autograd, m) {
  m.impl("permute_2D_sparse_data", &permute_2d);
  m.impl("permute_1D_sparse_data", &permute_1d);
  m.impl("permute_sparse_data_backward", &backward);
}
TORCH_LIBRARY_IMPL(fbgemm, AutogradPrivateUse1, m) {
  m.impl("permute_2D_sparse_data", forward_to_mxrec());
  m.impl("permute_1D_sparse_data", forward_to_mxrec());
}
TORCH_LIBRARY_IMPL(fbgemm, AutogradCPU, m) {
  FbgemmRegistrar registrar(m);
  registrar.impl("permute_2D_sparse_data", forward_to_mxrec());
  registrar.impl("permute_1D_sparse_data", forward_to_mxrec());
}

}  // namespace gr_ops
